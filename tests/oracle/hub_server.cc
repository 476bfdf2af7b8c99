// A hub of models for other programs to fetch from: hub_server FOLDER serves FOLDER/OWNER/NAME/… until its standard
// input ends, and prints its address.
#include <cstdio>
#include <filesystem>
#include <string>

#include "support/model_hub.h"
#include "support/temp_dir.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  namespace fs = std::filesystem;
  sparkx::testing::ModelHub hub;
  const fs::path root = argv[1];
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const fs::path path = entry.path().lexically_relative(root);
    auto part = path.begin();
    const std::string owner = *part++, name = *part++;
    fs::path file;
    for (; part != path.end(); ++part) file /= *part;
    hub.repos[owner + "/" + name][file.string()] = sparkx::testing::read_file(entry.path());
  }
  std::printf("%s\n", hub.url().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

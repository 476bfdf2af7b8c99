#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "support/errors.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::error_of;

bool is(const KernelTable& table, std::string_view name) {
  return table.name == name;
}
bool old_cpu(const KernelTable& table) {
  return is(table, "reference") || is(table, "emulated512");
}
bool new_cpu(const KernelTable&) {
  return true;
}

TEST(Dispatch, TheReferenceComesFirstAndNamesAreDistinct) {
  EXPECT_STREQ(kernel_tables()[0]->name, "reference");
  std::set<std::string> names;
  for (const KernelTable* table : kernel_tables()) {
    EXPECT_TRUE(names.insert(table->name).second) << table->name;
    EXPECT_GE(table->token_tile, 1);
    EXPECT_GE(table->code_token_tile, 1);
  }
  EXPECT_TRUE(runs_on_this_cpu(*kernel_tables()[0]));
  EXPECT_TRUE(names.count("emulated512"));
}

TEST(Dispatch, EveryTableIsComplete) {
  for (const KernelTable* table : kernel_tables()) {
    for (int kind = 0; kind < kWeightKinds; ++kind) {
      EXPECT_NE(table->dot[kind], nullptr);
      EXPECT_NE(table->decode_row[kind], nullptr);
      const bool coded = coded_form({static_cast<WeightKind>(kind)}) != ActivationForm::values;
      EXPECT_EQ(table->dot_codes[kind] != nullptr, coded);
    }
    for (int kind = 0; kind < kKvKinds; ++kind) {
      EXPECT_NE(table->store_key[kind], nullptr);
      EXPECT_NE(table->store_value[kind], nullptr);
    }
    for (int kind = 0; kind < kDenseKinds; ++kind) EXPECT_NE(table->quantize_affine[kind], nullptr);
    EXPECT_NE(table->code_activations, nullptr);
    EXPECT_NE(table->instruction_set, nullptr);
  }
}

TEST(Dispatch, ANameChoosesThatTable) {
  EXPECT_STREQ(kernel_table("reference").name, "reference");
  EXPECT_STREQ(choose_kernel_table("emulated512", old_cpu).name, "emulated512");
}

TEST(Dispatch, AnUnknownNameIsRefusedWithTheNamesThereAre) {
  const std::string error = error_of([] { kernel_table("avx9"); });
  EXPECT_EQ(error.rfind("unsupported: unknown instruction set \"avx9\"; this program has reference, emulated512", 0), 0)
      << error;
}

TEST(Dispatch, TheEnvironmentChooses) {
  const char* before = std::getenv("SPARKX_ISA");
  const std::string saved = before != nullptr ? before : "";
  setenv("SPARKX_ISA", "emulated512", 1);
  EXPECT_STREQ(kernel_table().name, "emulated512");
  setenv("SPARKX_ISA", "", 1);
  EXPECT_STRNE(kernel_table().name, "emulated512") << "empty is as if it were absent";
  if (before != nullptr) {
    setenv("SPARKX_ISA", saved.c_str(), 1);
  } else {
    unsetenv("SPARKX_ISA");
  }
}

#if defined(__x86_64__)
bool avx2_cpu(const KernelTable& table) {
  return old_cpu(table) || is(table, "emulatedvnni") || is(table, "avx2");
}
bool avxvnni_cpu(const KernelTable& table) {
  return avx2_cpu(table) || is(table, "avxvnni");
}
// A server CPU before AVX-VNNI.
bool cascade_lake(const KernelTable& table) {
  return avx2_cpu(table) || is(table, "avx512");
}

TEST(Dispatch, TheBestThatTheCpuHasIsTaken) {
  EXPECT_STREQ(choose_kernel_table(nullptr, new_cpu).name, "avx512");
  EXPECT_STREQ(choose_kernel_table(nullptr, cascade_lake).name, "avx512");
  EXPECT_STREQ(choose_kernel_table(nullptr, avxvnni_cpu).name, "avxvnni");
  EXPECT_STREQ(choose_kernel_table(nullptr, avx2_cpu).name, "avx2");
}

TEST(Dispatch, AnOldCpuIsRefusedInASentenceUnlessTheReferenceIsAskedFor) {
  EXPECT_EQ(
      error_of([] { choose_kernel_table(nullptr, old_cpu); }),
      "unsupported: this CPU does not have AVX2, FMA and F16C, which sparkx needs to be fast; SPARKX_ISA=reference "
      "runs it slowly");
  EXPECT_STREQ(choose_kernel_table("reference", old_cpu).name, "reference");
}

TEST(Dispatch, ATableThatTheCpuLacksIsRefused) {
  EXPECT_EQ(
      error_of([] { choose_kernel_table("avx512", avx2_cpu); }),
      "unsupported: the instruction set \"avx512\" needs AVX-512 (F, BW, DQ, VL, VNNI), which this CPU does not have");
}
#elif defined(__aarch64__)
bool dotprod_cpu(const KernelTable& table) {
  return old_cpu(table) || is(table, "neon");
}

TEST(Dispatch, TheBestThatTheCpuHasIsTaken) {
  EXPECT_STREQ(choose_kernel_table(nullptr, new_cpu).name, "neoni8mm");
  EXPECT_STREQ(choose_kernel_table(nullptr, dotprod_cpu).name, "neon");
}

TEST(Dispatch, AnOldCpuIsRefusedInASentenceUnlessTheReferenceIsAskedFor) {
  EXPECT_EQ(error_of([] { choose_kernel_table(nullptr, old_cpu); }),
            "unsupported: this CPU does not have NEON with dot products (FEAT_DotProd), which sparkx needs to be fast; "
            "SPARKX_ISA=reference runs it slowly");
  EXPECT_STREQ(choose_kernel_table("reference", old_cpu).name, "reference");
}
#endif

}  // namespace
}  // namespace sparkx::kernels

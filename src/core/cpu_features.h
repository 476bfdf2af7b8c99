// What the CPU can do and how many of its cores are ours.
#pragma once

#include <filesystem>
#include <string>

namespace sparkx {

// Instruction sets that the CPU has and the operating system saves the registers of.
struct CpuFeatures {
  // x86-64
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx_vnni = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512vl = false;
  bool avx512dq = false;
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  // 64-bit ARM
  bool neon = false;
  bool dotprod = false;  // sdot, udot
  bool i8mm = false;
  bool bf16 = false;
};

// Looked up once.
const CpuFeatures& cpu_features();

// The CPU's name as its maker spells it, empty where the system does not say. `root`: see below.
std::string cpu_name(const std::filesystem::path& root = "/");

// Threads for a forward pass: the physical cores that the process's affinity allows (a second hardware thread adds
// nothing to code that is bound by memory or vector units), at most the CPU quota of its control groups, at least 1.
// `root` is the file system to look in, "/" but for tests.
int default_thread_count(const std::filesystem::path& root = "/");

}  // namespace sparkx

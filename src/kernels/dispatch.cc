#include "kernels/dispatch.h"

#include <cstdlib>
#include <string>

#include "core/error.h"
#include "kernels/tables/tables.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sparkx::kernels {

namespace {

// Slowest first, but the emulated table, which is for tests, is never the best.
constexpr const KernelTable* kTables[] = {
    &kReferenceTable, &kEmulated512Table,
#if defined(__x86_64__)
    &kAvx2Table,      &kAvxVnniTable,     &kAvx512Table,
#endif
};

std::string table_names() {
  std::string names;
  for (const KernelTable* table : kTables) {
    if (!names.empty()) names += ", ";
    names += table->name;
  }
  return names;
}

}  // namespace

std::span<const KernelTable* const> kernel_tables() {
  return kTables;
}

bool runs_on_this_cpu(const KernelTable& table) {
#if defined(__x86_64__)
  // The compiler's checks include the operating system's support for the registers.
  const auto has_avx2 = [] {
    unsigned a, b, c, d;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
  };
  if (&table == &kAvx2Table) return has_avx2();
  if (&table == &kAvxVnniTable) {
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & bit_AVXVNNI) != 0;
  }
  if (&table == &kAvx512Table) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
  }
#endif
  return &table == &kReferenceTable || &table == &kEmulated512Table;
}

const KernelTable& choose_kernel_table(const char* requested, bool (*runs)(const KernelTable&)) {
  if (requested != nullptr && *requested != '\0') {
    for (const KernelTable* table : kTables) {
      if (std::string_view(table->name) != requested) continue;
      if (!runs(*table)) {
        throw_error(ErrorCode::unsupported, "the instruction set \"{}\" needs {}, which this CPU does not have",
                    table->name, table->instruction_set);
      }
      return *table;
    }
    throw_error(ErrorCode::unsupported, "unknown instruction set \"{}\"; this program has {}", requested,
                table_names());
  }
#if defined(__x86_64__)
  if (runs(kAvx512Table)) return kAvx512Table;
  if (runs(kAvxVnniTable)) return kAvxVnniTable;
  if (runs(kAvx2Table)) return kAvx2Table;
  throw_error(ErrorCode::unsupported,
              "this CPU does not have {}, which sparkx needs to be fast; SPARKX_ISA=reference runs it slowly",
              kAvx2Table.instruction_set);
#else
  return kReferenceTable;
#endif
}

const KernelTable& kernel_table() {
  return choose_kernel_table(std::getenv("SPARKX_ISA"), runs_on_this_cpu);
}

const KernelTable& kernel_table(std::string_view name) {
  return choose_kernel_table(std::string(name).c_str(), runs_on_this_cpu);
}

}  // namespace sparkx::kernels

#include "kernels/dispatch.h"

#include <cstdlib>
#include <string>

#include "core/cpu_features.h"
#include "core/error.h"
#include "kernels/tables/tables.h"

namespace sparkx::kernels {

namespace {

// The first ones are for whoever asks for them by name: the reference, and what stands in for instructions in tests.
// The others are for the CPUs that have them, the slowest first.
constexpr const KernelTable* kTables[] = {
    &kReferenceTable,    &kEmulated512Table,
#if defined(__x86_64__)
    &kEmulatedVnniTable, &kAvx2Table,        &kAvxVnniTable, &kAvx512Table,
#elif defined(__aarch64__)
    &kNeonTable,
    &kNeonI8mmTable,
#endif
};
#if defined(__x86_64__)
constexpr const KernelTable& kLeastTable = kAvx2Table;
#elif defined(__aarch64__)
constexpr const KernelTable& kLeastTable = kNeonTable;
#endif

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
  const CpuFeatures& cpu = cpu_features();
#if defined(__x86_64__)
  const bool avx2 = cpu.avx2 && cpu.fma && cpu.f16c;
  if (&table == &kAvx2Table || &table == &kEmulatedVnniTable) return avx2;
  if (&table == &kAvxVnniTable) return avx2 && cpu.avx_vnni;
  if (&table == &kAvx512Table) {
    return avx2 && cpu.avx512f && cpu.avx512bw && cpu.avx512dq && cpu.avx512vl && cpu.avx512_vnni;
  }
#elif defined(__aarch64__)
  if (&table == &kNeonTable) return cpu.dotprod;
  if (&table == &kNeonI8mmTable) return cpu.dotprod && cpu.i8mm;
#endif
  return &table == &kReferenceTable || &table == &kEmulated512Table;
}

bool has_fast_bfloat16(const KernelTable& table) {
  if (table.dot_bfloat16 == nullptr || !runs_on_this_cpu(table)) return false;
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;
#endif
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
  const KernelTable* best = nullptr;
  bool chosen_by_itself = false;
  for (const KernelTable* table : kTables) {
    chosen_by_itself |= table == &kLeastTable;
    if (chosen_by_itself && runs(*table)) best = table;
  }
  if (best == nullptr) {
    throw_error(ErrorCode::unsupported,
                "this CPU does not have {}, which sparkx needs to be fast; SPARKX_ISA=reference runs it slowly",
                kLeastTable.instruction_set);
  }
  return *best;
}

const KernelTable& kernel_table() {
  return choose_kernel_table(std::getenv("SPARKX_ISA"), runs_on_this_cpu);
}

const KernelTable& kernel_table(std::string_view name) {
  return choose_kernel_table(std::string(name).c_str(), runs_on_this_cpu);
}

}  // namespace sparkx::kernels

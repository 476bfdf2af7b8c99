# Flags for the tables of kernels/tables/. Only these files are compiled for more than the baseline of the platform; each
# holds nothing but internal functions and one constant, so that no code of theirs can stand in for another file's.
set(kernel_flags -fno-math-errno) # a square root is one instruction
# Tables that are the code of another one on another layer, mostly for tests: sanitizers look at the others, and would take minutes
# to compile these.
set(twin_flags -fno-sanitize=all)
set_source_files_properties(kernels/math.cc kernels/tables/reference.cc
  PROPERTIES COMPILE_OPTIONS "${kernel_flags}")
# For tests only: quick to compile in a release build, quick enough to run in a debug build.
set_source_files_properties(kernels/tables/emulated512.cc PROPERTIES COMPILE_OPTIONS "${kernel_flags};${twin_flags};$<$<NOT:$<CONFIG:Mutation>>:-O2>")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set_source_files_properties(kernels/tables/avx2.cc
    PROPERTIES COMPILE_OPTIONS "${kernel_flags};-mavx2;-mfma;-mf16c")
  set_source_files_properties(kernels/tables/emulatedvnni.cc
    PROPERTIES COMPILE_OPTIONS "${kernel_flags};${twin_flags};-mavx2;-mfma;-mf16c")
  set_source_files_properties(kernels/tables/avxvnni.cc
    PROPERTIES COMPILE_OPTIONS "${kernel_flags};${twin_flags};-mavx2;-mfma;-mf16c;-mavxvnni")
  # GCC 12 takes the undefined operand inside its own AVX-512 intrinsics for a mistake of ours (GCC bug 105593).
  set_source_files_properties(kernels/tables/avx512.cc
    PROPERTIES COMPILE_OPTIONS "${kernel_flags};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mfma;-mf16c;$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
  set_source_files_properties(kernels/tables/avx512_bfloat16.cc
    PROPERTIES COMPILE_OPTIONS "${kernel_flags};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mavx512bf16;-mfma;-mf16c;$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set_source_files_properties(kernels/tables/neon.cc
    PROPERTIES COMPILE_OPTIONS "${kernel_flags};-march=armv8.2-a+dotprod")
  set_source_files_properties(kernels/tables/neoni8mm.cc
    PROPERTIES COMPILE_OPTIONS "${kernel_flags};-march=armv8.2-a+dotprod+i8mm")
endif()

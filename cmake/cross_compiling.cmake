# Compiled libraries of the building machine are of no use for another processor; headers and sources are. Both come from
# the same Debian packages as otherwise. What is built so fetches no models.
add_library(fmt::fmt INTERFACE IMPORTED)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)

set(SPARKX_FETCHING OFF)

if(SPARKX_BUILD_TESTS)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
endif()

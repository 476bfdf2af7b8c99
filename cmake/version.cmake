# The facts of --version. They are looked up at every build, but the file changes, and core/version.cc is compiled again, only
# when one of them has changed.
find_package(Git QUIET)
set(SPARKX_VERSION_FILE ${PROJECT_BINARY_DIR}/generated/sparkx_version.inc)
string(REPLACE "GNU" "GCC" compiler_name ${CMAKE_CXX_COMPILER_ID})
set(write_version
  ${CMAKE_COMMAND}
  -D SOURCE_DIR=${PROJECT_SOURCE_DIR}
  -D OUTPUT=${SPARKX_VERSION_FILE}
  -D VERSION=${PROJECT_VERSION}
  -D "COMPILER=${compiler_name} ${CMAKE_CXX_COMPILER_VERSION}"
  -D GIT=$<IF:$<BOOL:${Git_FOUND}>,${GIT_EXECUTABLE},>
  -P ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake)
add_custom_target(sparkx_version BYPRODUCTS ${SPARKX_VERSION_FILE} COMMAND ${write_version} VERBATIM)
add_dependencies(sparkx sparkx_version)
set_source_files_properties(core/version.cc PROPERTIES
  INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/generated
  OBJECT_DEPENDS ${SPARKX_VERSION_FILE})

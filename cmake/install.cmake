# `cmake --install`: the library, its public headers and find_package(sparkx), which gives the target sparkx::sparkx.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS sparkx EXPORT sparkx-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sparkx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sparkx)
install(EXPORT sparkx-targets NAMESPACE sparkx:: DESTINATION ${package_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/sparkx-config.cmake.in ${PROJECT_BINARY_DIR}/generated/sparkx-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/generated/sparkx-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/generated/sparkx-config.cmake
  ${PROJECT_BINARY_DIR}/generated/sparkx-config-version.cmake
  DESTINATION ${package_dir})

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET sparkx_cli)
  install(TARGETS sparkx_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

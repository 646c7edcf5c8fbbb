# Installation: headers, both libraries, gluon.pc, the CMake package.
#
# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

install(TARGETS gluon gluon_static EXPORT gluon-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY ${GEN}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# gluon.pc derives its prefix from its own location, so that an installed tree can be moved.
string(REGEX REPLACE "[^/]+" ".." PC_PREFIX_FROM_HERE ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(PC_LIBS_PRIVATE "-lm -pthread$<$<BOOL:${JPEG_FOUND}>: -ljpeg>$<$<BOOL:${PNG_FOUND}>: -lpng>$<$<BOOL:${ZLIB_FOUND}>: -lz>")
configure_file(${PROJECT_SOURCE_DIR}/cmake/gluon.pc.in ${PROJECT_BINARY_DIR}/gluon.pc.in @ONLY)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/gluon.pc INPUT ${PROJECT_BINARY_DIR}/gluon.pc.in)
install(FILES ${PROJECT_BINARY_DIR}/gluon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/gluon)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/gluon-config.cmake.in ${PROJECT_BINARY_DIR}/gluon-config.cmake
    INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gluon-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gluon-config.cmake ${PROJECT_BINARY_DIR}/gluon-config-version.cmake
    DESTINATION ${package_folder})
install(EXPORT gluon-targets NAMESPACE gluon:: DESTINATION ${package_folder})

# Cross-compiling for 64-bit ARM with Debian's gcc-aarch64-linux-gnu; programs run under qemu-aarch64.
#
#     cmake --toolchain cmake/arm64.cmake -DGLUON_SYSROOT=FOLDER ...
#
# GLUON_SYSROOT is a folder with further ARM libraries (tools/sysroot.sh fills one); the C library is the compiler's own.
#
# SPDX-License-Identifier: Apache-2.0
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
find_program(gluon_arm_cxx aarch64-linux-gnu-g++)
if(gluon_arm_cxx)
    set(CMAKE_CXX_COMPILER ${gluon_arm_cxx})
else()
    set(CMAKE_CXX_COMPILER NOTFOUND) # not that of this machine
endif()
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GLUON_SYSROOT)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
if(GLUON_SYSROOT)
    list(APPEND CMAKE_FIND_ROOT_PATH ${GLUON_SYSROOT})
    set(libraries ${GLUON_SYSROOT}/usr/lib/aarch64-linux-gnu)
    list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -E LD_LIBRARY_PATH=${libraries}:${GLUON_SYSROOT}/lib/aarch64-linux-gnu)
    set(CMAKE_C_FLAGS_INIT "-isystem ${GLUON_SYSROOT}/usr/include/aarch64-linux-gnu")
    set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${libraries}:${GLUON_SYSROOT}/lib/aarch64-linux-gnu)
endif()
# Programs of the build are those of this machine, libraries and headers those of the other.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

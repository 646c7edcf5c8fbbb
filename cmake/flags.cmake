# Compiler settings: language, warnings, optimisation, sanitizers, instruction levels, optional libraries.
#
# SPDX-License-Identifier: Apache-2.0
include(CheckCSourceCompiles)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

# All our targets link this; it is never installed.
add_library(gluon_flags INTERFACE)
target_compile_options(gluon_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    $<$<BOOL:${GLUON_WERROR}>:-Werror>)
# The include order matters: src/gluon/ and include/gluon/ are both included as "gluon/...", the public one first.
target_include_directories(gluon_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${GEN}/include ${PROJECT_SOURCE_DIR}/src)

set(GLUON_KERNEL_OPTIMIZE -O3)
if(GLUON_TSAN)
    target_compile_options(gluon_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer -g -O1)
    target_link_options(gluon_flags INTERFACE -fsanitize=thread)
endif()
if(GLUON_SANITIZE)
    set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(gluon_flags INTERFACE ${sanitize} -O1)
    target_link_options(gluon_flags INTERFACE ${sanitize})
    set(GLUON_KERNEL_OPTIMIZE -O1)
    if(GLUON_FUZZ)
        # clang reports NULL + 0, which the next C standard allows: what an empty array's data is.
        target_compile_options(gluon_flags INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize=pointer-overflow)
    endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(GLUON_KERNEL_OPTIMIZE -O1)
endif()

# Kernels are compiled once per level and chosen when the library is loaded (src/cpu/kernels/level.h).  A program that
# stays on this machine needs only two of the levels: GLUON_LEVELS=native.
check_c_source_compiles("#ifndef __x86_64__\n#error other\n#endif\nint main(void) { return 0; }" GLUON_IS_X86_64)
set(GLUON_LEVELS all CACHE STRING "Instruction levels to build: all, native (generic and the best of this machine), or a list with generic in it")
set(GLUON_LEVEL_generic "")
if(GLUON_IS_X86_64 AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND GLUON_KERNEL_OPTIMIZE STREQUAL "-O3")
    set(GLUON_LEVEL_generic -O2) # few machines run this level: optimise for size
endif()
set(GLUON_LEVEL_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(GLUON_LEVEL_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mbmi2 -mprefer-vector-width=512)

# Sets `result` to the levels above generic that this machine runs, lowest first.
function(gluon_machine_levels result)
    set(found "")
    if(GLUON_IS_X86_64 AND EXISTS /proc/cpuinfo)
        file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
        string(APPEND flags " ")
        if(flags MATCHES " avx2 " AND flags MATCHES " fma " AND flags MATCHES " bmi2 ")
            list(APPEND found avx2)
            if(flags MATCHES " avx512f " AND flags MATCHES " avx512bw " AND flags MATCHES " avx512dq " AND flags MATCHES " avx512vl ")
                list(APPEND found avx512)
            endif()
        endif()
    endif()
    set(${result} ${found} PARENT_SCOPE)
endfunction()

# Sets `result` to the levels that GLUON_LEVELS selects.
function(gluon_levels result)
    set(levels ${GLUON_LEVELS})
    if(GLUON_LEVELS STREQUAL "all")
        set(levels generic)
        if(GLUON_IS_X86_64)
            list(APPEND levels avx2 avx512)
        endif()
    elseif(GLUON_LEVELS STREQUAL "native")
        set(levels generic)
        gluon_machine_levels(found)
        if(found)
            list(GET found -1 best)
            list(APPEND levels ${best})
        endif()
    endif()
    set(${result} ${levels} PARENT_SCOPE)
endfunction()
gluon_levels(levels)

# Line numbers and names suffice for a kernel's stack trace; locations of variables would take a third of the build.
set(GLUON_KERNEL_FLAGS ${GLUON_KERNEL_OPTIMIZE} $<$<CONFIG:RelWithDebInfo>:-g1> -fno-math-errno -fno-trapping-math -ffp-contract=fast)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(ZLIB)
target_link_libraries(gluon_flags INTERFACE Threads::Threads m)
if(ZLIB_FOUND)
    target_compile_definitions(gluon_flags INTERFACE HAVE_ZLIB)
    target_link_libraries(gluon_flags INTERFACE ZLIB::ZLIB)
endif()
find_package(JPEG)
if(JPEG_FOUND)
    target_compile_definitions(gluon_flags INTERFACE HAVE_JPEG)
    target_link_libraries(gluon_flags INTERFACE JPEG::JPEG)
else()
    message(STATUS "libjpeg not found: JPEG images are left out (Debian package libjpeg-dev)")
endif()
find_package(PNG)
if(PNG_FOUND)
    target_compile_definitions(gluon_flags INTERFACE HAVE_PNG)
    target_link_libraries(gluon_flags INTERFACE PNG::PNG)
else()
    message(STATUS "libpng not found: PNG images are left out (Debian package libpng-dev)")
endif()

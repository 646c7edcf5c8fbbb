# The CUDA part: libgluon_cuda.so, which the library opens at the first use of a GPU (src/cuda/load.c).
#
# GLUON_CUDA=AUTO builds it if a GPU, nvcc and cuDNN are found, ON also without a GPU, CHECK too but as fast as possible (no
# optimisation, no machine code), to check that everything compiles.  OFF leaves it out.
# CMAKE_CUDA_ARCHITECTURES: Hopper's machine code, and PTX for newer GPUs and for older ones from Turing on.
#
# SPDX-License-Identifier: Apache-2.0
set(GLUON_CUDA AUTO CACHE STRING "Build the CUDA part: AUTO (where there is a GPU), ON, CHECK (fast, not to be run), OFF")
set(GLUON_HAVE_CUDA OFF)
set(wanted ${GLUON_CUDA})
if(GLUON_CUDA STREQUAL "AUTO")
    file(GLOB gpus /dev/nvidia[0-9]* /dev/dxg)
    set(wanted ${gpus})
endif()
if(wanted AND NOT GLUON_SANITIZE)
    include(CheckLanguage)
    if(GLUON_CUDA STREQUAL "CHECK")
        set(CMAKE_CUDA_ARCHITECTURES 90-virtual)
    elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES 75-virtual 90)
    endif()
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        find_package(CUDAToolkit QUIET)
        find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
        find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
        if(TARGET CUDA::cublas AND CUDNN_INCLUDE AND CUDNN_LIBRARY)
            set(GLUON_HAVE_CUDA ON)
        else()
            message(STATUS "CUDA part: left out, cuBLAS or cuDNN was not found")
        endif()
    else()
        message(STATUS "CUDA part: left out, nvcc was not found")
    endif()
endif()

if(GLUON_HAVE_CUDA)
    enable_language(CUDA)
    file(GLOB_RECURSE cuda_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cu)
    file(GLOB cuda_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)
    gluon_marked(table_files "MX_CUDA_KERNELS\\(" ${cuda_kernels})
    gluon_names(cuda_families ${table_files})
    set(body "")
    gluon_append_list(body "const mx_kernel" mx_cuda_families mx_cuda_kernels_ "" ${cuda_families})
    gluon_write_list(cuda_families.gen.c op/op.h src/cuda/kernels "${body}")
    # Headers for programs compiled at run time (src/cuda/compile.h), as text.
    set(body "")
    set(list "")
    set(number 0)
    foreach(name IN ITEMS base/any_device.h op/formula/math.h op/formula/special.h
            cuda/kernels/pointwise/math_f32.h cuda/kernels/pointwise/chain.h)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name})
        file(READ ${PROJECT_SOURCE_DIR}/src/${name} text HEX)
        string(REGEX REPLACE "(..)" "0x\\1," text "${text}")
        string(APPEND body "static const char text${number}[] = {${text}0};\n")
        string(APPEND list "    {\"${name}\", text${number}},\n")
        math(EXPR number "${number} + 1")
    endforeach()
    file(CONFIGURE OUTPUT ${GEN}/cuda_sources.gen.c CONTENT "/* Made by the build from src/cuda/kernels. */
${body}const struct { const char *name, *text; } mx_cuda_sources[] = {\n${list}    {0, 0}};\n" @ONLY)
    # Files without state are compiled into both libraries (src/cuda/plugin.h).
    set(shared_files src/ndarray/dtype.c src/ndarray/shape.c src/ndarray/convert.c)
    add_library(gluon_cuda SHARED ${cuda_files} ${cuda_kernels} ${shared_files} ${GEN}/cuda_families.gen.c ${GEN}/cuda_sources.gen.c)
    target_include_directories(gluon_cuda PRIVATE src include ${GEN}/include ${CUDNN_INCLUDE})
    target_compile_options(gluon_cuda PRIVATE -fPIC
        $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda -Xcompiler=-Wall,-fvisibility=hidden>
        $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<STREQUAL:${GLUON_CUDA},CHECK>>:-Xcicc=-O0>
        $<$<COMPILE_LANGUAGE:C>:-O2;-fvisibility=hidden>)
    target_link_libraries(gluon_cuda PRIVATE CUDA::cudart_static CUDA::cublas CUDA::cublasLt ${CUDNN_LIBRARY} ${CMAKE_DL_LIBS})
    # Symbols that both libraries define (src/cuda/plugin.h) stay separate, also in a program that links the library.
    target_link_options(gluon_cuda PRIVATE -Wl,--no-undefined
        -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/cuda.map)
    set_target_properties(gluon_cuda PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/cuda.map)
    set_target_properties(gluon_cuda PROPERTIES CUDA_STANDARD 17 LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    add_dependencies(gluon_cuda opgen_run)
    install(TARGETS gluon_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
elseif(GLUON_CUDA STREQUAL "CHECK")
    add_custom_target(gluon_cuda COMMENT "There is no nvcc here, or no cuDNN: the CUDA part is not compiled")
endif()

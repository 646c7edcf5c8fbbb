# The library: object libraries per step, the two generators between them, then libgluon.so and libgluon.a.
#
# SPDX-License-Identifier: Apache-2.0

# Sets `result` to all C files in and below the given folders of src/.
function(gluon_sources result)
    set(all "")
    foreach(folder IN LISTS ARGN)
        file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.c)
        list(APPEND all ${files})
    endforeach()
    set(${result} ${all} PARENT_SCOPE)
endfunction()

# An object library `name` with our flags.
function(gluon_objects name)
    add_library(${name} OBJECT ${ARGN})
    target_link_libraries(${name} PRIVATE gluon_flags)
    # Thread-locals (error record, scopes, recording mode) are on the hot path: access them without a call.
    target_compile_options(${name} PRIVATE -ftls-model=initial-exec)
endfunction()

# Runs `tool header` and `tool source` into gen/include/gluon/NAME.gen.h and gen/NAME.gen.c.  Files are replaced only
# when they change; the target `tool`_run builds both.
function(gluon_generate tool name)
    # The tool reads descriptions, whose functions call code that is compiled later: they do not run, so it may be missing.
    target_link_options(${tool} PRIVATE -no-pie -Wl,--unresolved-symbols=ignore-all)
    set(header ${GEN}/include/gluon/${name}.gen.h)
    set(source ${GEN}/${name}.gen.c)
    add_custom_command(
        OUTPUT ${GEN}/${tool}.stamp
        BYPRODUCTS ${header} ${source}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${GEN}/include/gluon
        COMMAND ${tool} header ${GEN}/${name}.h.new
        COMMAND ${tool} source ${GEN}/${name}.c.new
        COMMAND ${CMAKE_COMMAND} -E copy_if_different ${GEN}/${name}.h.new ${header}
        COMMAND ${CMAKE_COMMAND} -E copy_if_different ${GEN}/${name}.c.new ${source}
        COMMAND ${CMAKE_COMMAND} -E touch ${GEN}/${tool}.stamp
        DEPENDS ${tool}
        COMMENT "Writing gluon/${name}.gen.h"
        VERBATIM)
    add_custom_target(${tool}_run DEPENDS ${GEN}/${tool}.stamp)
    set_source_files_properties(${source} PROPERTIES GENERATED TRUE)
endfunction()

# ---- step one: the operator descriptions and what they need ------------------------------------------------
gluon_sources(ops_files base ndarray op)
gluon_objects(gluon_ops ${ops_files} ${GEN}/op_families.gen.c)
add_executable(opgen tools/opgen.c)
target_link_libraries(opgen PRIVATE gluon_ops gluon_flags)
gluon_generate(opgen op)
add_executable(npgen tools/opgen.c)
target_compile_definitions(npgen PRIVATE NP)
target_link_libraries(npgen PRIVATE gluon_ops gluon_flags)
gluon_generate(npgen np)

# ---- step two: kernels, execution and blocks ---------------------------------------------------------------
# Sums of integers wrap around, as NumPy's do.
set_source_files_properties(src/cpu/kernels/pointwise/pointwise_integer.c src/cpu/kernels/pointwise/pointwise_numbers.c
    PROPERTIES COMPILE_OPTIONS -fwrapv)
set(computing "")
foreach(level IN LISTS levels)
    if(GLUON_BASE_${level})
        gluon_objects(kernels_${level} ${GLUON_ARM_FILES})
        target_compile_definitions(kernels_${level} PRIVATE MX_LEVEL_BASE=${GLUON_BASE_${level}})
    else()
        gluon_objects(kernels_${level} ${GLUON_KERNEL_FILES})
    endif()
    target_compile_options(kernels_${level} PRIVATE ${GLUON_KERNEL_FLAGS} ${GLUON_LEVEL_${level}})
    target_compile_definitions(kernels_${level} PRIVATE MX_LEVEL=${level})
    list(APPEND computing kernels_${level})
endforeach()
gluon_sources(run_files graph pass exec cpu cuda comm)
list(FILTER run_files EXCLUDE REGEX "/src/(cpu/kernels|comm/mpi)/")
gluon_objects(gluon_run ${run_files} ${GEN}/cpu_families.gen.c ${GEN}/op.gen.c ${GEN}/np.gen.c)
# Only this file depends on the list of levels, so that building another one recompiles nothing else.
list(TRANSFORM levels PREPEND MX_LEVEL_ OUTPUT_VARIABLE level_names)
string(TOUPPER "${level_names}" level_names)
set_source_files_properties(src/cpu/device.c PROPERTIES COMPILE_DEFINITIONS "${level_names}")
gluon_sources(block_files gluon)
list(FILTER block_files EXCLUDE REGEX "/src/gluon/zoo/")
gluon_objects(gluon_blocks ${block_files} ${GEN}/classes.gen.c)
list(APPEND computing gluon_run gluon_blocks)
foreach(step IN LISTS computing)
    add_dependencies(${step} opgen_run)
endforeach()
add_dependencies(gluon_run npgen_run)
add_executable(classgen tools/classgen.c)
target_link_libraries(classgen PRIVATE gluon_ops ${computing} gluon_flags)
gluon_generate(classgen nn)

# ---- step three: code that uses the generated constructors --------------------------------------------------
gluon_sources(zoo_files gluon/zoo)
gluon_objects(gluon_zoo ${zoo_files} ${GEN}/nn.gen.c)
add_dependencies(gluon_zoo classgen_run)

# ---- one folder of headers, as after an installation --------------------------------------------------------
# cc -Ibuild/include program.c -Lbuild/lib -lgluon
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h*)
file(REMOVE_RECURSE ${PROJECT_BINARY_DIR}/include)
foreach(header IN LISTS headers)
    get_filename_component(folder ${PROJECT_BINARY_DIR}/include/${header} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/${header} ${PROJECT_BINARY_DIR}/include/${header} SYMBOLIC)
endforeach()
foreach(name op np nn)
    file(CREATE_LINK ${GEN}/include/gluon/${name}.gen.h ${PROJECT_BINARY_DIR}/include/gluon/${name}.gen.h SYMBOLIC)
endforeach()

# ---- the libraries -----------------------------------------------------------------------------------------
set(objects "")
foreach(step gluon_ops ${computing} gluon_zoo)
    list(APPEND objects $<TARGET_OBJECTS:${step}>)
endforeach()
add_library(gluon SHARED ${objects})
add_library(gluon_static STATIC ${objects})
foreach(library gluon gluon_static)
    add_library(gluon::${library} ALIAS ${library}) # as after find_package: for projects that contain this one
    set_target_properties(${library} PROPERTIES OUTPUT_NAME gluon VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${GEN}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
target_link_libraries(gluon PRIVATE $<BUILD_INTERFACE:gluon_flags> ${CMAKE_DL_LIBS})
target_link_libraries(gluon_static PRIVATE $<BUILD_INTERFACE:gluon_flags> m ${CMAKE_DL_LIBS} Threads::Threads $<$<BOOL:${ZLIB_FOUND}>:ZLIB::ZLIB>
    $<$<BOOL:${JPEG_FOUND}>:JPEG::JPEG> $<$<BOOL:${PNG_FOUND}>:PNG::PNG>)
if(NOT GLUON_SANITIZE AND NOT GLUON_TSAN)
    target_link_options(gluon PRIVATE -Wl,--no-undefined -Wl,--as-needed)
endif()

# The MPI part: libgluon_mpi.so, which the library opens when a program runs as several processes (src/comm/load.c).
#
# GLUON_MPI=AUTO builds it if mpicc is found (Debian: libopenmpi-dev or libmpich-dev), OFF leaves it out.
#
# SPDX-License-Identifier: Apache-2.0
set(GLUON_MPI AUTO CACHE STRING "Build the MPI part: AUTO (where mpicc is found), OFF")
set(GLUON_HAVE_MPI OFF)
if(GLUON_MPI)
    find_package(MPI QUIET COMPONENTS C)
    set(GLUON_HAVE_MPI ${MPI_C_FOUND})
    if(NOT MPI_C_FOUND)
        message(STATUS "MPI part: left out, mpicc was not found (Debian packages libopenmpi-dev and openmpi-bin)")
    endif()
endif()

if(GLUON_HAVE_MPI)
    # Files without state are compiled into both libraries.
    add_library(gluon_mpi SHARED src/comm/mpi/mpi.c src/comm/mpi/sum.c src/ndarray/dtype.c src/ndarray/convert.c)
    set_source_files_properties(src/comm/mpi/sum.c PROPERTIES COMPILE_OPTIONS -O3) # its sums become vector code
    target_include_directories(gluon_mpi PRIVATE src include)
    target_link_libraries(gluon_mpi PRIVATE gluon_flags MPI::MPI_C)
    target_link_options(gluon_mpi PRIVATE -Wl,--no-undefined -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/mpi.map)
    set_target_properties(gluon_mpi PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/mpi.map
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    install(TARGETS gluon_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

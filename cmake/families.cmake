# Lists derived from file names: a new file in these folders is registered by being there.
#
#   src/op/def/*/softmax.c       defines mx_op mx_family_softmax[]                    gen/op_families.gen.c
#   src/gluon/def/conv.c      defines mx_class mx_classes_conv[]                   gen/classes.gen.c
#   src/cpu/kernels/*/pool.c   with a line MX_CPU_KERNELS(pool): a table per level  gen/cpu_families.gen.c
#
# SPDX-License-Identifier: Apache-2.0

# Sets `result` to the names of the given files without folder and suffix, as C identifiers.
function(gluon_names result)
    set(names "")
    foreach(path IN LISTS ARGN)
        get_filename_component(name ${path} NAME_WE)
        string(MAKE_C_IDENTIFIER ${name} name)
        list(APPEND names ${name})
    endforeach()
    set(${result} ${names} PARENT_SCOPE)
endfunction()

# Appends to the variable `text`: declarations of `element prefix_NAME_suffix[]`, then the list of them.
function(gluon_append_list text element list prefix suffix)
    set(declarations "")
    set(entries "")
    foreach(name IN LISTS ARGN)
        string(APPEND declarations "extern ${element} ${prefix}${name}${suffix}[];\n")
        string(APPEND entries "    ${prefix}${name}${suffix},\n")
    endforeach()
    string(APPEND ${text} "\n${declarations}extern ${element} *const ${list}[];\n"
        "${element} *const ${list}[] = {\n${entries}    NULL,\n};\n")
    set(${text} "${${text}}" PARENT_SCOPE)
endfunction()

# Writes gen/`file` (only when its content changes, so that nothing is compiled again for nothing).
function(gluon_write_list file header folder body)
    file(CONFIGURE OUTPUT ${GEN}/${file} @ONLY CONTENT
        "/* Made by cmake/families.cmake from the file names in ${folder}. */\n#include <stddef.h>\n#include \"${header}\"\n${body}")
endfunction()

# Sets `result` to those of the given files in which a line begins with `mark`, in the order of their names: folders
# group them for readers and mean nothing here.  Files without the mark are shared by others (a GEMM, say).
function(gluon_marked result mark)
    set(keyed "")
    foreach(path IN LISTS ARGN)
        file(STRINGS ${path} line REGEX "^${mark}" LIMIT_COUNT 1)
        if(line)
            get_filename_component(name ${path} NAME_WE)
            list(APPEND keyed ${name}=${path})
        endif()
    endforeach()
    list(SORT keyed)
    list(TRANSFORM keyed REPLACE "^[^=]*=" "")
    set(${result} ${keyed} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE op_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/op/def/*.c)
gluon_marked(op_files "mx_op mx_family_" ${op_files})
gluon_names(op_families ${op_files})
set(body "")
gluon_append_list(body "mx_op" mx_op_families mx_family_ "" ${op_families})
gluon_write_list(op_families.gen.c op/op.h src/op/def "${body}")

file(GLOB class_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/gluon/def/*.c)
gluon_names(class_families ${class_files})
set(body "")
gluon_append_list(body "mx_class" mx_class_families mx_classes_ "" ${class_families})
gluon_write_list(classes.gen.c gluon/class/class.h src/gluon/def "${body}")

file(GLOB_RECURSE GLUON_KERNEL_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cpu/kernels/*.c)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GLUON_KERNEL_FILES})
gluon_marked(table_files "MX_CPU_KERNELS\\(" ${GLUON_KERNEL_FILES})
gluon_names(kernel_families ${table_files})
set(body "")
foreach(level IN LISTS levels)
    gluon_append_list(body "const mx_cpu_kernel" mx_cpu_families_${level} mx_cpu_kernels_ _${level} ${kernel_families})
endforeach()
gluon_write_list(cpu_families.gen.c cpu/kernel.h src/cpu/kernels "${body}")

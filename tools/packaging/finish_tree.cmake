# CPack runs this on the tree of files of each package, before it is packed.

# What Debian's policy says of a package's documents: names, and what is compressed (without the time, so that
# the same files make the same bytes).
function(finish_debian_documents root)
  file(GLOB_RECURSE manual_pages ${root}/usr/share/man/*.1)
  file(GLOB folders ${root}/usr/share/doc/*)
  foreach(folder IN LISTS folders)
    if(EXISTS ${folder}/LICENSE)
      file(READ ${folder}/LICENSE license)
      file(WRITE ${folder}/copyright
           "Copyright: the dlprobe developers\n\nLicensed under the Apache License, Version 2.0. "
           "On Debian systems its text is in\n/usr/share/common-licenses/Apache-2.0.\n")
      file(REMOVE ${folder}/LICENSE)
    endif()
    if(EXISTS ${folder}/CHANGELOG.md)
      file(RENAME ${folder}/CHANGELOG.md ${folder}/changelog)
    endif()
  endforeach()
  file(GLOB changelogs ${root}/usr/share/doc/*/changelog)
  foreach(file IN LISTS manual_pages changelogs)
    execute_process(COMMAND gzip -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endfunction()

file(GLOB roots LIST_DIRECTORIES ON ${CPACK_TEMPORARY_DIRECTORY}/*)
foreach(root IN LISTS roots)
  if(NOT IS_DIRECTORY ${root})
    continue()
  endif()
  if(CPACK_GENERATOR STREQUAL DEB)
    finish_debian_documents(${root})
  endif()
  if(DEFINED ENV{SOURCE_DATE_EPOCH})
    execute_process(COMMAND find ${root} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()

# CPack runs this on the tree of files of each package, before it is packed.

# When the package is made, in seconds: SOURCE_DATE_EPOCH, so that the same source gives the same bytes.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(epoch $ENV{SOURCE_DATE_EPOCH})
else()
  string(TIMESTAMP epoch %s UTC)
endif()

# What Debian's policy wants of the documents of the package in `root`: names, a changelog in its own form, gzip
# (without a time in it).
function(finish_debian_documents root)
  cmake_path(GET root FILENAME package)
  set(folder ${root}/usr/share/doc/${package})
  file(REMOVE ${folder}/LICENSE)
  # Debian's zsh looks into site-functions below /usr/local alone.
  if(EXISTS ${root}/usr/share/zsh/site-functions)
    file(RENAME ${root}/usr/share/zsh/site-functions ${root}/usr/share/zsh/vendor-completions)
  endif()
  file(WRITE ${folder}/copyright
       "Copyright (C) 2026 the dlprobe developers\n\nLicensed under the Apache License, Version 2.0; its text is in\n"
       "/usr/share/common-licenses/Apache-2.0.\n")
  execute_process(COMMAND env LC_ALL=C date --utc --rfc-email --date=@${epoch} OUTPUT_VARIABLE date
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${folder}/changelog
       "${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
       "  * What is new is in /usr/share/doc/dlprobe/CHANGELOG.md.\n\n"
       " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  file(GLOB_RECURSE compressed ${root}/usr/share/man/*.1 ${folder}/changelog)
  foreach(file IN LISTS compressed)
    execute_process(COMMAND gzip -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endfunction()

if(CPACK_GENERATOR STREQUAL DEB)
  foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    finish_debian_documents(${CPACK_TEMPORARY_DIRECTORY}/${component})
  endforeach()
endif()
execute_process(COMMAND find ${CPACK_TEMPORARY_DIRECTORY} -exec touch --no-dereference --date=@${epoch} {} +
                COMMAND_ERROR_IS_FATAL ANY)

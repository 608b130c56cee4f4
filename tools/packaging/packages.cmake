# CPack: Debian packages of the two components, and a tarball of a static build. tools/package runs it.
set(CPACK_PACKAGE_NAME dlprobe)
set(CPACK_PACKAGE_VENDOR "the dlprobe developers")
set(DLPROBE_MAINTAINER "The dlprobe developers <dlprobe@localhost>" CACHE STRING "Who answers for the packages: Name <address>")
set(CPACK_PACKAGE_CONTACT "${DLPROBE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dlprobe)
if(TARGET dlprobe-reference-loader)
  list(APPEND CPACK_COMPONENTS_ALL dlprobe-reference-loader)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/generator.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/finish_tree.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_DLPROBE_PACKAGE_NAME dlprobe)
set(CPACK_DEBIAN_DLPROBE_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_DLPROBE_DESCRIPTION
    "names the cause when a data loader dies, hangs or leaks
Looks at a multi-process data loader (such as that of PyTorch) from outside,
through /proc, and says what is wrong with it: shared memory that is too
small, locks that were lost over fork, descriptors and memory that leak,
who killed a worker. A gate checks a machine before a long job starts.")
set(CPACK_DEBIAN_DLPROBE-REFERENCE-LOADER_PACKAGE_NAME dlprobe-reference-loader)
set(CPACK_DEBIAN_DLPROBE-REFERENCE-LOADER_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_DLPROBE-REFERENCE-LOADER_PACKAGE_DEPENDS "dlprobe (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DLPROBE-REFERENCE-LOADER_DESCRIPTION
    "reference loader that dlprobe tries a machine with
A multi-process data loader on libtorch and OpenCV, which dlprobe runs to
learn whether a machine can carry a given loader, or to show what a failure
looks like. dlprobe works without it on processes and commands.")

set(CPACK_PACKAGE_FILE_NAME dlprobe-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
if(DLPROBE_STATIC)
  string(APPEND CPACK_PACKAGE_FILE_NAME -static)
endif()
include(CPack)

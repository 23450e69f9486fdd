# The Node package: build/node/holdfast, which runs as it is and is packed by ops/sdk/npm. The addon
# needs the headers of Node-API alone (Debian: libnode-dev; NodeSource's packages bring them): they are
# C, the same for every Node from 18 on, and what they name is found in the program that loads it. So
# it is compiled as any library here, without node-gyp and npm.
find_path(HOLDFAST_NODE_HEADERS node_api.h PATH_SUFFIXES node)
if(NOT HOLDFAST_NODE_HEADERS)
  message(STATUS "Node package: left out, no node_api.h here (apt install libnode-dev)")
  return()
endif()
if(HOLDFAST_SANITIZE OR HOLDFAST_COVERAGE)
  message(STATUS "Node package: left out, Node loads no addon with sanitizers or counts")
  return()
endif()
message(STATUS "Node package: with the headers in ${HOLDFAST_NODE_HEADERS}")
set(node_source ${CMAKE_SOURCE_DIR}/ops/sdk/node)
set(node_package ${CMAKE_BINARY_DIR}/node/holdfast)
file(GLOB node_sources CONFIGURE_DEPENDS ${node_source}/addon/*.cpp)
add_library(holdfast_node MODULE ${node_sources})
target_link_libraries(holdfast_node PRIVATE holdfast_flags ${CMAKE_DL_LIBS})
target_include_directories(holdfast_node SYSTEM PRIVATE ${HOLDFAST_NODE_HEADERS})
holdfast_room(holdfast_node PRIVATE shared/sdk)
holdfast_room(holdfast_node PRIVATE ops/sdk/node/addon)
set_target_properties(holdfast_node PROPERTIES PREFIX "" SUFFIX ".node" OUTPUT_NAME holdfast
  LIBRARY_OUTPUT_DIRECTORY ${node_package} CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
add_dependencies(holdfast_node holdfast_shared)  # what it opens when it runs
# The other files of the package: copied when they change.
set(VERSION ${holdfast_version})
string(TOLOWER ${CMAKE_SYSTEM_PROCESSOR} CPU)
string(REGEX REPLACE "^(x86_64|amd64)$" "x64" CPU ${CPU})
string(REPLACE "aarch64" "arm64" CPU ${CPU})
configure_file(${node_source}/package.json ${node_package}/package.json @ONLY)
foreach(file ${node_source}/index.js ${node_source}/index.d.ts ${CMAKE_SOURCE_DIR}/LICENSE)
  get_filename_component(name ${file} NAME)
  configure_file(${file} ${node_package}/${name} COPYONLY)
endforeach()

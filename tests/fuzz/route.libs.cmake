set(libs holdfast_gateway)
set(more ${CMAKE_CURRENT_SOURCE_DIR}/stub_daemon.cpp)

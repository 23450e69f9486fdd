#pragma once
// The OpenCL devices of this machine, numbered over all platforms in the loader's order.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/backend/opencl/api.h"

namespace holdfast::opencl {

struct Device {
  const Api* api = nullptr;
  cl_device_id id = nullptr;
  int number = 0;
  std::string name, driver, platform, version, extensions;
  bool gpu = false;
  std::uint64_t memory = 0;     // bytes; HOLDFAST_OPENCL_MEMORY lowers it
  std::uint64_t max_alloc = 0;  // bytes of one buffer
  std::uint64_t local_bytes = 0;
  std::uint64_t group_items = 0;  // most items of a work-group
  std::uint32_t compute_units = 0;
  bool wide_lanes = false;        // an item adds vectors: processors do, GPUs do not
  bool rounds_divisions = false;  // division and square root can be had correctly rounded
  std::string unusable;           // why no model can be loaded; empty: it can

  bool has(std::string_view extension) const;
};

/// kUnsupported if there is none.
Result<std::vector<Device>> list_devices(const Api& api);
/// "opencl" (the first one), "opencl:N", or "opencl:N+M" for several. kUnsupported: no such device,
/// or not usable; says which there are.
Result<std::vector<Device>> pick_devices(const Api& api, std::string_view name);
/// The numbers that such a name says; empty if it is not one.
std::vector<int> device_numbers(std::string_view name);

}  // namespace holdfast::opencl

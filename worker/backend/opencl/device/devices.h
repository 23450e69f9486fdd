#pragma once
// The OpenCL devices of this machine, numbered over all platforms in the loader's order.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/backend/opencl/device/api.h"

namespace holdfast::opencl {

/// A device as its driver describes it. Sizes are in bytes.
struct Device {
  const Api* api = nullptr;
  cl_device_id id = nullptr;
  int number = 0;
  cl_platform_id platform_id = nullptr;
  std::string name, driver, platform, version, extensions;
  bool gpu = false;
  bool is_host = false;             // a processor: its memory is the host's own
  bool shares_host_memory = false;  // a processor, or a GPU without memory of its own
  std::string memory_key;           // unique on this machine, and the same in all processes
  std::uint64_t memory = 0;         // bytes; HOLDFAST_OPENCL_MEMORY lowers it
  std::uint64_t max_alloc = 0;      // bytes of one buffer
  std::uint64_t local_bytes = 0;
  std::uint64_t group_items = 0;  // most items of a work-group
  std::uint32_t compute_units = 0;
  bool wide_lanes = false;        // an item adds vectors: processors do, GPUs do not
  bool supports_tiles = false;    // work-groups can run tiles of many rows (kernels/tile.cl)
  bool supports_matrix = false;   // work-groups can do so by matrix units (kernels/bytes.cl)
  bool rounds_divisions = false;  // division and square root are correctly rounded on request
  std::string unusable;           // why no model can be loaded; empty: one can

  bool has(std::string_view extension) const;
};

/// Lists the devices of all platforms. kUnsupported: there is none.
Result<std::vector<Device>> list_devices(const Api& api);
/// The parts of a device's name.
struct DeviceName {
  std::vector<int> numbers;  // in the order of the name; a number may occur more than once
  bool by_rows = false;      // "N,M": tensor parallel; else "N+M": pipeline parallel
  bool and_cpu = false;      // "N+cpu": the last layers run on the processor
  std::string text() const;  // "opencl:0+1"
};
/// Parses "opencl" (the first device), "opencl:N", "opencl:N+M", "opencl:N,M" or "opencl:N+cpu";
/// nullopt: it is no such name.
std::optional<DeviceName> parse_device_name(std::string_view name);
/// The devices of such a name. kUnsupported: no such name or device, or one that cannot be used;
/// the message lists the devices.
Result<std::vector<Device>> select_devices(const Api& api, std::string_view name);

}  // namespace holdfast::opencl

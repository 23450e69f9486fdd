#pragma once
// The OpenCL devices of this machine, numbered over all platforms in the loader's order.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/backend/opencl/api.h"

namespace holdfast::opencl {

struct Device {
  const Api* api = nullptr;
  cl_device_id id = nullptr;
  int number = 0;
  cl_platform_id platform_id = nullptr;
  std::string name, driver, platform, version, extensions;
  bool gpu = false;
  bool is_host = false;             // a processor: its memory is the host's own
  bool shares_host_memory = false;  // so is that of a processor, and of a GPU without its own
  std::string memory_key;           // names its memory among those of this machine, also elsewhere
  std::uint64_t memory = 0;         // bytes; HOLDFAST_OPENCL_MEMORY lowers it
  std::uint64_t max_alloc = 0;      // bytes of one buffer
  std::uint64_t local_bytes = 0;
  std::uint64_t group_items = 0;  // most items of a work-group
  std::uint32_t compute_units = 0;
  bool wide_lanes = false;        // an item adds vectors: processors do, GPUs do not
  bool room_for_tiles = false;    // of groups that multiply many rows (kernels/tile.cl)
  bool room_for_matrix = false;   // of groups that do so by matrix units (kernels/bytes.cl)
  bool rounds_divisions = false;  // division and square root can be had correctly rounded
  std::string unusable;           // why no model can be loaded; empty: it can

  bool has(std::string_view extension) const;
};

/// kUnsupported if there is none.
Result<std::vector<Device>> list_devices(const Api& api);
/// What the name of a device says.
struct DeviceName {
  std::vector<int> numbers;  // in their order; a number may come more than once
  bool by_rows = false;      // "N,M": the rows of every matrix over them; else "N+M": layers
  bool and_cpu = false;      // "N+cpu": the last layers on the processor
  std::string text() const;  // "opencl:0+1"
};
/// "opencl" (the first device), "opencl:N", "opencl:N+M", "opencl:N,M", "opencl:N+cpu"; nullopt: it
/// is no such name.
std::optional<DeviceName> parse_device_name(std::string_view name);
/// The devices of such a name. kUnsupported: no such name or device, or one that cannot be used;
/// says which there are.
Result<std::vector<Device>> pick_devices(const Api& api, std::string_view name);

}  // namespace holdfast::opencl

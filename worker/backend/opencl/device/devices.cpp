#include "worker/backend/opencl/device/devices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "shared/base/bytes.h"
#include "worker/backend/opencl/device/limits.h"

namespace holdfast::opencl {
namespace {

std::string text_of(const Device& d, cl_device_info what) {
  std::size_t bytes = 0;
  if (d.api->clGetDeviceInfo(d.id, what, 0, nullptr, &bytes) != CL_SUCCESS) return "";
  std::string text(bytes, '\0');
  if (d.api->clGetDeviceInfo(d.id, what, bytes, text.data(), nullptr) != CL_SUCCESS) return "";
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

template <class T>
T number_of(const Device& d, cl_device_info what) {
  T value = 0;
  if (d.api->clGetDeviceInfo(d.id, what, sizeof value, &value, nullptr) != CL_SUCCESS) return 0;
  return value;
}

std::string platform_name(const Api& api, cl_platform_id platform) {
  char name[256] = {};
  api.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
  return name;
}

/// The bytes that loads may take of a device, for devices that others use too.
/// HOLDFAST_OPENCL_MEMORY=BYTES holds for every device; in BYTES,BYTES,… each holds for the device
/// of its number, and an empty item sets no limit.
std::uint64_t memory_allowed(int number) {
  const char* text = std::getenv("HOLDFAST_OPENCL_MEMORY");
  std::string_view all = text == nullptr ? "" : text;
  if (all.find(',') != std::string_view::npos) {
    for (int i = 0; i < number && !all.empty(); ++i) {
      all.remove_prefix(std::min(all.find(','), all.size() - 1) + 1);
    }
  }
  const std::uint64_t bytes = std::strtoull(std::string(all).c_str(), nullptr, 10);
  return bytes == 0 ? UINT64_MAX : bytes;
}

/// "uuid:…" or "pci:0000:01:00.0" as the driver reports it; else the device's name and number.
std::string memory_key(const Device& d) {
  constexpr cl_device_info kUuid = 0x106A;    // cl_khr_device_uuid
  constexpr cl_device_info kPciBus = 0x410F;  // cl_khr_pci_bus_info
  constexpr cl_device_info kBusNv = 0x4008;   // cl_nv_device_attribute_query
  constexpr cl_device_info kSlotNv = 0x4009;
  unsigned char uuid[16] = {};
  if (d.has("cl_khr_device_uuid") &&
      d.api->clGetDeviceInfo(d.id, kUuid, sizeof uuid, uuid, nullptr) == CL_SUCCESS) {
    return "uuid:" + to_hex(ByteSpan(reinterpret_cast<const std::byte*>(uuid), sizeof uuid));
  }
  cl_uint pci[4] = {};  // domain, bus, device, function
  if (d.has("cl_khr_pci_bus_info") &&
      d.api->clGetDeviceInfo(d.id, kPciBus, sizeof pci, pci, nullptr) == CL_SUCCESS) {
    char text[32];
    std::snprintf(text, sizeof text, "pci:%04x:%02x:%02x.%x", pci[0], pci[1], pci[2], pci[3]);
    return text;
  }
  if (d.has("cl_nv_device_attribute_query")) {
    char text[32];
    std::snprintf(text, sizeof text, "pci:%02x:%02x", number_of<cl_uint>(d, kBusNv),
                  number_of<cl_uint>(d, kSlotNv));
    return text;
  }
  return d.name + "#" + std::to_string(d.number);
}

std::string why_unusable(const Device& d) {
  if (number_of<cl_bool>(d, CL_DEVICE_AVAILABLE) == CL_FALSE) return "is not available";
  if (number_of<cl_bool>(d, CL_DEVICE_COMPILER_AVAILABLE) == CL_FALSE) return "has no compiler";
  if (number_of<cl_bool>(d, CL_DEVICE_ENDIAN_LITTLE) == CL_FALSE) return "is big-endian";
  if (d.version.rfind("OpenCL 1.0", 0) == 0 || d.version.rfind("OpenCL 1.1", 0) == 0) {
    return "has " + d.version + ", expected 1.2 or later";
  }
  if (d.group_items < kGroupItemsMost) {
    return "runs work-groups of " + std::to_string(d.group_items) + " items, expected " +
           std::to_string(kGroupItemsMost);
  }
  if (d.local_bytes < kLocalBytesMost) {
    return "has " + std::to_string(d.local_bytes) + " bytes of local memory, expected " +
           std::to_string(kLocalBytesMost);
  }
  return "";
}

Device describe(const Api& api, cl_platform_id platform, cl_device_id id, int number) {
  Device d;
  d.api = &api;
  d.id = id;
  d.number = number;
  d.platform_id = platform;
  d.platform = platform_name(api, platform);
  d.name = text_of(d, CL_DEVICE_NAME);
  d.driver = text_of(d, CL_DRIVER_VERSION);
  d.version = text_of(d, CL_DEVICE_VERSION);
  d.extensions = text_of(d, CL_DEVICE_EXTENSIONS);
  d.gpu = (number_of<cl_device_type>(d, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0;
  d.is_host = (number_of<cl_device_type>(d, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  d.shares_host_memory =
      d.is_host || number_of<cl_bool>(d, CL_DEVICE_HOST_UNIFIED_MEMORY) != CL_FALSE;
  d.memory = std::min<std::uint64_t>(number_of<cl_ulong>(d, CL_DEVICE_GLOBAL_MEM_SIZE),
                                     memory_allowed(number));
  d.max_alloc = number_of<cl_ulong>(d, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  d.local_bytes = number_of<cl_ulong>(d, CL_DEVICE_LOCAL_MEM_SIZE);
  d.group_items = number_of<std::size_t>(d, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  d.compute_units = number_of<cl_uint>(d, CL_DEVICE_MAX_COMPUTE_UNITS);
  d.wide_lanes = number_of<cl_uint>(d, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT) > 4;
  d.supports_tiles = d.group_items >= kTileItems && d.local_bytes >= kTileLocalBytes;
  d.supports_matrix = d.supports_tiles && d.local_bytes >= kMatrixLocalBytes;
  d.rounds_divisions = (number_of<cl_device_fp_config>(d, CL_DEVICE_SINGLE_FP_CONFIG) &
                        CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  d.memory_key = memory_key(d);
  d.unusable = why_unusable(d);
  return d;
}

}  // namespace

bool Device::has(std::string_view extension) const {
  return (" " + extensions + " ").find(" " + std::string(extension) + " ") != std::string::npos;
}

Result<std::vector<Device>> list_devices(const Api& api) {
  cl_uint n = 0;
  const cl_int status = api.clGetPlatformIDs(0, nullptr, &n);
  std::vector<cl_platform_id> platforms(n);
  // The loader (cl_khr_icd) returns -1001 where no driver is registered.
  if (n > 0) api.clGetPlatformIDs(n, platforms.data(), nullptr);
  std::vector<Device> devices;
  for (const cl_platform_id platform : platforms) {
    cl_uint count = 0;
    if (api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) {
      continue;  // CL_DEVICE_NOT_FOUND: a platform without devices
    }
    std::vector<cl_device_id> ids(count);
    api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
    for (const cl_device_id id : ids) {
      devices.push_back(describe(api, platform, id, static_cast<int>(devices.size())));
    }
  }
  if (!devices.empty()) return devices;
  return Error{Errc::kUnsupported,
               "list OpenCL devices: " +
                   (n == 0 ? "no driver is registered with the loader, " + status_text(status)
                           : "the drivers know no device") +
                   "; expected a file in /etc/OpenCL/vendors and its device"};
}

std::string DeviceName::text() const {
  std::string all = "opencl:";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    all += (i == 0 ? "" : by_rows ? "," : "+") + std::to_string(numbers[i]);
  }
  return all + (and_cpu ? "+cpu" : "");
}

std::optional<DeviceName> parse_device_name(std::string_view name) {
  DeviceName parsed;
  if (name == "opencl") {
    parsed.numbers = {0};
    return parsed;
  }
  if (name.rfind("opencl:", 0) != 0) return std::nullopt;
  name.remove_prefix(7);
  constexpr std::string_view kAndCpu = "+cpu";
  if (name.size() > kAndCpu.size() && name.substr(name.size() - kAndCpu.size()) == kAndCpu) {
    parsed.and_cpu = true;
    name.remove_suffix(kAndCpu.size());
  }
  parsed.by_rows = name.find(',') != std::string_view::npos;
  if (parsed.by_rows && parsed.and_cpu) return std::nullopt;
  for (bool more = true; more;) {
    const std::size_t end = std::min(name.find(parsed.by_rows ? ',' : '+'), name.size());
    const std::string digits(name.substr(0, end));
    const bool plain = !digits.empty() && digits.size() < 4 &&
                       digits.find_first_not_of("0123456789") == std::string::npos;
    if (!plain) return std::nullopt;
    parsed.numbers.push_back(std::stoi(digits));
    more = end < name.size();
    name.remove_prefix(more ? end + 1 : end);
  }
  return parsed;
}

Result<std::vector<Device>> select_devices(const Api& api, std::string_view name) {
  const auto fail = [&](const std::string& cause) {
    return Error{Errc::kUnsupported, "load " + std::string(name) + ": " + cause};
  };
  HOLDFAST_TRY(const std::vector<Device> devices, list_devices(api));
  std::string available;
  for (const Device& d : devices) available += " opencl:" + std::to_string(d.number) + " " + d.name;
  const std::optional<DeviceName> parsed = parse_device_name(name);
  if (!parsed) {
    return fail(
        "expected opencl:N, opencl:N+M for layers over several devices, opencl:N,M for the "
        "rows of every matrix, or opencl:N+cpu; there are" +
        available);
  }
  std::vector<Device> selected;
  for (const int number : parsed->numbers) {
    if (number >= static_cast<int>(devices.size())) {
      return fail("no such device; there are" + available);
    }
    const Device& d = devices[static_cast<std::size_t>(number)];
    if (!d.unusable.empty()) return fail(d.name + " " + d.unusable);
    selected.push_back(d);
  }
  return selected;
}

}  // namespace holdfast::opencl

#include "bench/device_probe_run/card.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "device_probe_texts.h"
#include "shared/base/check.h"

namespace holdfast::bench::probe {

using opencl::EventHandle;
using opencl::KernelHandle;
using opencl::MemoryHandle;
using opencl::ProgramHandle;

std::string program_text(const std::vector<const char*>& files, const std::vector<Macro>& macros) {
  std::string out;
  for (const Macro& macro : macros) {
    out += std::string("#define ") + macro.name + " " + std::to_string(macro.value) + "\n";
  }
  for (const char* name : files) {
    const char* found = nullptr;
    for (const ProbeText& file : kProbeTexts) {
      if (std::strcmp(file.name, name) == 0) found = file.text;
    }
    CHECK_MSG(found != nullptr, name);
    out += found;
  }
  return out;
}

void* loader_function(const char* name) {
  static void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : dlsym(library, name);
}

Card::Card(const opencl::Device& device, std::string ptx) : device_(device), ptx_(std::move(ptx)) {
  reopen();
}

void Card::reopen() {
  programs_.clear();
  queue_ = {};
  context_ = {};
  error_.clear();
  cl_int status = CL_SUCCESS;
  context_ = {api(), api().clCreateContext(nullptr, 1, &device_.id, nullptr, nullptr, &status)};
  note("open the device", status);
  if (!good()) return;
  queue_ = {api(), api().clCreateCommandQueue(context_.get(), device_.id, CL_QUEUE_PROFILING_ENABLE,
                                              &status)};
  note("make a queue", status);
}

void Card::fail(const std::string& what) {
  if (good()) error_ = what;
}

void Card::note(const char* what, cl_int status) {
  if (status != CL_SUCCESS) fail(std::string(what) + ": " + opencl::status_text(status));
}

bool Card::compile(const std::string& name, cl_program program) {
  const std::string options =
      std::string("-cl-std=CL1.2") +
      (device_.rounds_divisions ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
  const cl_int status =
      api().clBuildProgram(program, 1, &device_.id, options.c_str(), nullptr, nullptr);
  if (status == CL_SUCCESS) return true;
  std::string log(4000, '\0');
  std::size_t bytes = 0;
  api().clGetProgramBuildInfo(program, device_.id, CL_PROGRAM_BUILD_LOG, log.size(), log.data(),
                              &bytes);
  log.resize(std::min<std::size_t>(std::strlen(log.c_str()), 800));
  fail("build " + name + ": " + opencl::status_text(status) + ": " + log);
  return false;
}

cl_program Card::build(const std::string& name, const std::string& source) {
  if (!good()) return nullptr;
  const auto built = programs_.find(source);
  if (built != programs_.end()) return built->second.get();
  const char* text = source.c_str();
  cl_int status = CL_SUCCESS;
  ProgramHandle program(
      api(), api().clCreateProgramWithSource(context_.get(), 1, &text, nullptr, &status));
  note("create a program", status);
  if (!good() || !compile(name, program.get())) return nullptr;
  store_binary(name, program.get());
  return (programs_[source] = std::move(program)).get();
}

std::string Card::binary_of(cl_program program) {
  std::size_t bytes = 0;
  note("size of a binary",
       api().clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr));
  std::string binary(bytes, '\0');
  char* at = binary.data();
  note("binary of a program",
       api().clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof at, &at, nullptr));
  return binary;
}

void Card::store_binary(const std::string& name, cl_program program) {
  if (ptx_.empty()) return;
  const std::string binary = binary_of(program);
  std::ofstream file(ptx_ + "/" + name + ".ptx", std::ios::binary);
  file.write(binary.data(), static_cast<std::streamsize>(binary.size()));
  if (!file) fail("write " + ptx_ + "/" + name + ".ptx: cannot be written; give another --ptx");
}

cl_program Card::build_sm90a(const std::string& name, const std::string& source) {
  const cl_program plain = build(name, source);
  if (!good()) return nullptr;
  const std::string key = "sm_90a " + source;
  const auto built = programs_.find(key);
  if (built != programs_.end()) return built->second.get();
  std::string text = binary_of(plain);
  const std::string marker = "//HF90A ", target = ".target sm_90";
  const std::size_t target_at = text.find(target);
  if (text.find(marker) == std::string::npos || target_at == std::string::npos) {
    fail("rewrite " + name + ": the driver's binary is no text with the markers and .target sm_90");
    return nullptr;
  }
  text.insert(target_at + target.size(), "a");
  for (std::size_t at = 0; (at = text.find(marker, at)) != std::string::npos;) {
    text.erase(at, marker.size());
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  const std::size_t size = text.size();
  cl_int taken = CL_SUCCESS, status = CL_SUCCESS;
  ProgramHandle program(api(), api().clCreateProgramWithBinary(context_.get(), 1, &device_.id,
                                                               &size, &bytes, &taken, &status));
  note("load the rewritten text", status);
  note("load the rewritten text", taken);
  if (!good() || !compile(name + " for sm_90a", program.get())) return nullptr;
  store_binary(name + "_sm90a", program.get());
  return (programs_[key] = std::move(program)).get();
}

KernelHandle Card::kernel(cl_program program, const char* name) {
  if (!good()) return {};
  cl_int status = CL_SUCCESS;
  KernelHandle kernel(api(), api().clCreateKernel(program, name, &status));
  note((std::string("kernel ") + name).c_str(), status);
  return kernel;
}

MemoryHandle Card::buffer(std::size_t bytes, cl_mem_flags flags) {
  if (!good()) return {};
  cl_int status = CL_SUCCESS;
  MemoryHandle memory(api(), api().clCreateBuffer(context_.get(), flags, bytes, nullptr, &status));
  note("create a buffer", status);
  return memory;
}

void Card::write(const MemoryHandle& to, std::size_t at, const void* from, std::size_t bytes) {
  if (!good()) return;
  note("write", api().clEnqueueWriteBuffer(queue(), to.get(), CL_TRUE, at, bytes, from, 0, nullptr,
                                           nullptr));
}

void Card::read(const MemoryHandle& from, std::size_t at, void* to, std::size_t bytes) {
  if (!good()) return;
  note("read",
       api().clEnqueueReadBuffer(queue(), from.get(), CL_TRUE, at, bytes, to, 0, nullptr, nullptr));
}

void Card::zero(const MemoryHandle& to, std::size_t bytes) {
  if (!good()) return;
  const cl_uint none = 0;
  note("fill", api().clEnqueueFillBuffer(queue(), to.get(), &none, sizeof none, 0, bytes, 0,
                                         nullptr, nullptr));
}

void Card::set_raw(const KernelHandle& kernel, cl_uint at, std::size_t bytes, const void* value) {
  if (!good()) return;
  note("set an argument", api().clSetKernelArg(kernel.get(), at, bytes, value));
}

cl_uint Card::arguments_of(const KernelHandle& kernel) {
  static const auto info =
      reinterpret_cast<decltype(&::clGetKernelInfo)>(loader_function("clGetKernelInfo"));
  cl_uint n = 0;
  if (info == nullptr) fail("the loader lacks clGetKernelInfo");
  if (good()) {
    note("arguments of a kernel", info(kernel.get(), CL_KERNEL_NUM_ARGS, sizeof n, &n, nullptr));
  }
  return n;
}

EventHandle Card::launch(const KernelHandle& kernel, const Grid& grid) {
  if (!good()) return {};
  const std::size_t items[] = {grid.items_x, grid.items_y};
  const std::size_t all[] = {grid.groups_x * grid.items_x, grid.groups_y * grid.items_y};
  cl_event event = nullptr;
  note("launch", api().clEnqueueNDRangeKernel(queue(), kernel.get(), 2, nullptr, all, items, 0,
                                              nullptr, &event));
  return {api(), event};
}

EventHandle Card::copy(const MemoryHandle& from, std::size_t from_at, const MemoryHandle& to,
                       std::size_t to_at, std::size_t bytes) {
  if (!good()) return {};
  cl_event event = nullptr;
  note("copy", api().clEnqueueCopyBuffer(queue(), from.get(), to.get(), from_at, to_at, bytes, 0,
                                         nullptr, &event));
  return {api(), event};
}

void Card::finish() {
  if (queue() != nullptr) note("finish", api().clFinish(queue()));
}

double Card::us_between(const EventHandle& first, const EventHandle& last) {
  static const auto info = reinterpret_cast<decltype(&::clGetEventProfilingInfo)>(
      loader_function("clGetEventProfilingInfo"));
  cl_ulong start = 0, end = 0;
  if (info == nullptr) fail("the loader lacks clGetEventProfilingInfo");
  if (!good()) return 0;
  note("time of an event",
       info(first.get(), CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr));
  note("time of an event", info(last.get(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr));
  return static_cast<double>(end - start) / 1e3;
}

double Card::run(const KernelHandle& kernel, const Grid& grid) {
  const EventHandle event = launch(kernel, grid);
  finish();
  return us(event);
}

}  // namespace holdfast::bench::probe

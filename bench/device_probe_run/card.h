#pragma once
// The device under test, for trials that may fail: the first failure is kept as text, and calls do
// nothing from then on until forget() or reopen().

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/backend/opencl/device/devices.h"

namespace holdfast::bench::probe {

/// Work-groups in x and y, and items of a work-group in x and y.
struct Grid {
  std::size_t groups_x = 1, groups_y = 1, items_x = 1, items_y = 1;
};

/// A kernel's argument: local memory of this many bytes.
struct LocalBytes {
  std::size_t bytes = 0;
};

/// A macro of a program.
struct Macro {
  const char* name;
  long value;
};

/// The texts of these files of this folder (*.cl, without the ending), after the macros.
std::string program_text(const std::vector<const char*>& files,
                         const std::vector<Macro>& macros = {});

/// A function of the loader that the backend's table lacks; null if there is none.
void* loader_function(const char* name);

/// A context and an in-order queue with times of one device. Not thread-safe.
class Card {
 public:
  /// `ptx`: a folder for the binaries of all programs, or empty. Opens the device.
  Card(const opencl::Device& device, std::string ptx);

  const opencl::Device& device() const { return device_; }
  cl_context context() const { return context_.get(); }
  const opencl::Api& api() const { return *device_.api; }
  cl_command_queue queue() const { return queue_.get(); }
  /// True where the compiler takes inline PTX.
  bool takes_ptx() const { return device_.has("cl_nv_device_attribute_query"); }

  bool good() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  void fail(const std::string& what);
  void forget() { error_.clear(); }
  /// Leaves the context, which a failed kernel spoils, for a new one.
  void reopen();

  /// Builds a program, once for each source; it lives until reopen(). `name` is for errors and for
  /// the file of its binary.
  cl_program build(const std::string& name, const std::string& source);
  /// The same for sm_90a, whose instructions the compiler does not take: the source has them as
  /// comments `//HF90A `, which are uncovered in the binary's text.
  cl_program build_sm90a(const std::string& name, const std::string& source);
  opencl::KernelHandle kernel(cl_program program, const char* name);

  opencl::MemoryHandle buffer(std::size_t bytes, cl_mem_flags flags = CL_MEM_READ_WRITE);
  template <class T>
  opencl::MemoryHandle buffer_of(const std::vector<T>& values) {
    opencl::MemoryHandle memory = buffer(values.size() * sizeof(T));
    write(memory, 0, values.data(), values.size() * sizeof(T));
    return memory;
  }
  /// Copies between host and device; both return when they are done.
  void write(const opencl::MemoryHandle& to, std::size_t at, const void* from, std::size_t bytes);
  void read(const opencl::MemoryHandle& from, std::size_t at, void* to, std::size_t bytes);
  template <class T>
  std::vector<T> values_of(const opencl::MemoryHandle& from, std::size_t n) {
    std::vector<T> values(n);
    read(from, 0, values.data(), n * sizeof(T));
    return values;
  }
  void zero(const opencl::MemoryHandle& to, std::size_t bytes);

  /// Sets all arguments: memory, int, std::uint32_t, std::uint64_t, float, LocalBytes.
  template <class... Args>
  void set(const opencl::KernelHandle& kernel, const Args&... args) {
    cl_uint at = 0;
    (set_one(kernel, at++, args), ...);
  }
  template <class T>
  void set_at(const opencl::KernelHandle& kernel, cl_uint at, const T& value) {
    set_one(kernel, at, value);
  }
  cl_uint arguments_of(const opencl::KernelHandle& kernel);
  /// Enqueues a kernel; its event.
  opencl::EventHandle launch(const opencl::KernelHandle& kernel, const Grid& grid);
  /// Enqueues a copy on the device; its event.
  opencl::EventHandle copy(const opencl::MemoryHandle& from, std::size_t from_at,
                           const opencl::MemoryHandle& to, std::size_t to_at, std::size_t bytes);
  void finish();
  /// Microseconds between start and end of a finished command, and between two commands.
  double us(const opencl::EventHandle& event) { return us_between(event, event); }
  double us_between(const opencl::EventHandle& first, const opencl::EventHandle& last);
  /// Runs a kernel to its end; its microseconds by the device's clock.
  double run(const opencl::KernelHandle& kernel, const Grid& grid);

 private:
  void note(const char* what, cl_int status);
  void set_raw(const opencl::KernelHandle& kernel, cl_uint at, std::size_t bytes,
               const void* value);
  template <class T>
  void set_one(const opencl::KernelHandle& kernel, cl_uint at, const T& value) {
    set_raw(kernel, at, sizeof value, &value);
  }
  void set_one(const opencl::KernelHandle& kernel, cl_uint at, const opencl::MemoryHandle& value) {
    const cl_mem memory = value.get();
    set_raw(kernel, at, sizeof memory, &memory);
  }
  void set_one(const opencl::KernelHandle& kernel, cl_uint at, const LocalBytes& local) {
    set_raw(kernel, at, local.bytes, nullptr);
  }
  bool compile(const std::string& name, cl_program program);
  std::string binary_of(cl_program program);
  void store_binary(const std::string& name, cl_program program);

  const opencl::Device device_;
  const std::string ptx_;
  opencl::Context context_;
  opencl::QueueHandle queue_;
  std::map<std::string, opencl::ProgramHandle> programs_;  // by source, sm_90a apart
  std::string error_;
};

}  // namespace holdfast::bench::probe

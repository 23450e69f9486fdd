#include "worker/backend/opencl/clblast/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

#include "worker/backend/api/opencl.h"

namespace holdfast::opencl {
namespace {

/// The version in the name of the file that a function comes from: "libclblast.so.1.5.3". CLBlast
/// has no function that says it. The number in the name that is opened, where the file has no
/// longer one.
std::string version_of(void* function) {
  constexpr std::string_view kBefore = ".so.";
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "1";
  const std::unique_ptr<char, decltype(&std::free)> path(realpath(info.dli_fname, nullptr),
                                                         &std::free);
  const std::string name = path == nullptr ? info.dli_fname : path.get();
  const std::size_t at = name.rfind(kBefore);
  return at == std::string::npos ? "1" : name.substr(at + kBefore.size());
}

Result<Clblast> open_clblast() {
  const auto fail = [](const std::string& cause) {
    return Error{Errc::kUnsupported,
                 "open CLBlast: " + cause + "; expected libclblast.so.1; install libclblast1"};
  };
  // Never closed: it holds compiled kernels of devices.
  void* library = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(dlerror());
  void* multiply = dlsym(library, "CLBlastSgemmWithTempBuffer");
  void* bytes = dlsym(library, "CLBlastSGemmTempBufferSize");
  if (multiply == nullptr || bytes == nullptr) {
    return fail("the library lacks CLBlastSgemmWithTempBuffer or CLBlastSGemmTempBufferSize");
  }
  Clblast out;
  out.multiply = reinterpret_cast<decltype(out.multiply)>(multiply);
  out.temporary_bytes = reinterpret_cast<decltype(out.temporary_bytes)>(bytes);
  out.version = version_of(multiply);
  return out;
}

}  // namespace

Result<const Clblast*> system_clblast() {
  static const Result<Clblast> library = open_clblast();
  if (!library.has_value()) return library.error();
  return &library.value();
}

Result<std::string> clblast_version() {
  HOLDFAST_TRY(const Clblast* library, system_clblast());
  return library->version;
}

}  // namespace holdfast::opencl

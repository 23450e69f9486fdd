#include "ops/sdk/node/addon/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace holdfast::node {
namespace {

constexpr const char* kFile = "libholdfast.so.0";

/// A library, or why there is none.
struct Loaded {
  Library functions{};
  std::string why;
};

/// Returns what dlopen() is to open.
std::string library_path() {
  const char* named = std::getenv("HOLDFAST_LIBRARY");
  if (named != nullptr && *named != '\0') return named;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&library), &here) != 0 && here.dli_fname != nullptr) {
    const auto neighbour = std::filesystem::path(here.dli_fname).parent_path() / kFile;
    std::error_code ignored;
    if (std::filesystem::exists(neighbour, ignored)) return neighbour;
  }
  return kFile;
}

/// Looks up one function; false, and `why` is set, if the library has none of that name.
template <class Function>
bool find(void* handle, const char* name, Function* out, std::string* why) {
  *out = reinterpret_cast<Function>(dlsym(handle, name));
  if (*out == nullptr) *why = std::string("it has no function ") + name;
  return *out != nullptr;
}

bool find_answers(void* handle, Library* to, std::string* why) {
  return find(handle, "holdfast_version", &to->version, why) &&
         find(handle, "holdfast_interface", &to->interface, why) &&
         find(handle, "holdfast_error_code", &to->error_code, why) &&
         find(handle, "holdfast_error_message", &to->error_message, why) &&
         find(handle, "holdfast_error_retry_after_ms", &to->error_retry_after_ms, why) &&
         find(handle, "holdfast_error_free", &to->error_free, why) &&
         find(handle, "holdfast_free", &to->free, why);
}

bool find_requests(void* handle, Library* to, std::string* why) {
  return find(handle, "holdfast_open", &to->open, why) &&
         find(handle, "holdfast_close", &to->close, why) &&
         find(handle, "holdfast_submit", &to->submit, why) &&
         find(handle, "holdfast_status", &to->status, why) &&
         find(handle, "holdfast_cancel", &to->cancel, why) &&
         find(handle, "holdfast_attach", &to->attach, why) &&
         find(handle, "holdfast_next", &to->next, why) &&
         find(handle, "holdfast_detach", &to->detach, why);
}

bool find_models(void* handle, Library* to, std::string* why) {
  return find(handle, "holdfast_models", &to->models, why) &&
         find(handle, "holdfast_add", &to->add, why) &&
         find(handle, "holdfast_load", &to->load, why) &&
         find(handle, "holdfast_unload", &to->unload, why) &&
         find(handle, "holdfast_remove", &to->remove, why) &&
         find(handle, "holdfast_stop_server", &to->stop_server, why);
}

Loaded load() {
  Loaded out;
  const std::string path = library_path();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* cause = dlerror();
    out.why = "open the C library " + path + ": " + (cause == nullptr ? "failed" : cause) +
              "; install libholdfast0, or set HOLDFAST_LIBRARY to the path of " + kFile;
    return out;
  }
  std::string missing;
  if (!find_answers(handle, &out.functions, &missing) ||
      !find_requests(handle, &out.functions, &missing) ||
      !find_models(handle, &out.functions, &missing)) {
    out.why = "open the C library " + path + ": " + missing + "; this package wants interface " +
              std::to_string(HOLDFAST_INTERFACE);
  } else if (out.functions.interface() < HOLDFAST_INTERFACE) {
    out.why = "open the C library " + path + ": it has interface " +
              std::to_string(out.functions.interface()) + ", this package wants " +
              std::to_string(HOLDFAST_INTERFACE);
  }
  return out;
}

}  // namespace

const Library* library(std::string* why) {
  static const Loaded* once = new Loaded(load());  // never freed: threads may outlive main()
  if (once->why.empty()) return &once->functions;
  *why = once->why;
  return nullptr;
}

}  // namespace holdfast::node

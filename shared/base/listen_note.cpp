#include "shared/base/listen_note.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "shared/base/replace_file.h"

namespace holdfast {
namespace {

constexpr const char* kNote = "/listen";

}  // namespace

Result<void> write_listen_note(const std::string& run_dir, const std::string& endpoint) {
  const std::string path = run_dir + kNote;
  if (endpoint.empty()) {
    if (unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    return Error{Errc::kIo, "remove " + path + ": " + std::strerror(errno)};
  }
  return replace_file(path, endpoint + "\n");
}

std::string read_listen_note(const std::string& run_dir) {
  std::ifstream in(run_dir + kNote);
  std::string endpoint;
  std::getline(in, endpoint);
  return endpoint;
}

}  // namespace holdfast

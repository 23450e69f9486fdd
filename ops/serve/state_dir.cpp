#include "ops/serve/state_dir.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

Error io_error(const std::string& what) {
  return {Errc::kIo, what + ": " + std::strerror(errno)};
}

Result<void> make_private_dir(const std::string& path, std::vector<std::string>& made) {
  if (mkdir(path.c_str(), 0700) == 0) {
    made.push_back(path);
    return {};
  }
  if (errno != EEXIST) return io_error("state directory " + path + ": cannot be created");
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Error{Errc::kIo,
                 "state directory " + path + ": is no directory; name another with --state"};
  }
  return {};
}

/// Checks by a write, not by access(2): the mode bits allow root everything, but not on a read-only
/// disk.
Result<void> check_writable(const std::string& dir) {
  const std::string probe = dir + "/.probe-" + std::to_string(getpid());
  const int fd = open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return io_error("state directory " + dir + ": cannot be written");
  close(fd);
  unlink(probe.c_str());
  return {};
}

struct HostPort {
  std::string host;
  std::string port;
};

bool is_port(const std::string& text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string::npos && std::stoi(text) <= 65535;
}

bool is_in_brackets(const std::string& host) {
  return host.size() >= 2 && host.front() == '[' && host.back() == ']';
}

Result<HostPort> split_address(const std::string& address) {
  HostPort out{"127.0.0.1", address};
  const std::size_t colon = address.rfind(':');
  if (colon != std::string::npos) {
    out = {address.substr(0, colon), address.substr(colon + 1)};
    if (is_in_brackets(out.host)) out.host = out.host.substr(1, out.host.size() - 2);
  }
  if (!is_port(out.port)) {
    return Error{Errc::kUsage, "--http " + address +
                                   ": expected HOST:PORT with a port of 0 to 65535, as in "
                                   "127.0.0.1:8080, or *:8080 for every address"};
  }
  if (out.host.empty() || out.host == "*") out.host = "0.0.0.0";
  return out;
}

/// Returns the URL of a listening socket, by the host that was asked for; if none was, by the bound
/// address.
std::string bound_url(int fd, std::string host) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  char address[NI_MAXHOST] = "";
  char port[16] = "0";
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, address, sizeof address, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  if (host.empty()) host = address;
  const bool ipv6 = host.find(':') != std::string::npos;
  return "http://" + (ipv6 ? "[" + host + "]" : host) + ":" + port;
}

}  // namespace

namespace {

/// Makes missing parents, then the directory and its contents.
Result<void> make_all(MadeState& state) {
  std::error_code failed;
  std::vector<std::string> parents;
  for (fs::path up = fs::path(state.path).parent_path(); !up.empty() && !fs::exists(up, failed);) {
    parents.push_back(up.string());
    up = up.parent_path();
  }
  state.made.assign(parents.rbegin(), parents.rend());
  fs::create_directories(fs::path(state.path).parent_path(), failed);  // mkdir reports the failure
  for (const char* part : {"", "/run", "/logs"}) {
    HOLDFAST_CHECKED(make_private_dir(state.path + part, state.made));
  }
  return check_writable(state.path);
}

}  // namespace

Result<MadeState> prepare_state_dir(const std::string& state_dir) {
  std::error_code failed;
  MadeState state;
  std::string& path = state.path;
  path = fs::absolute(state_dir, failed).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  // The longest of the sockets' paths; ZeroMQ would only say "invalid argument".
  const std::size_t longest = path.size() + std::strlen("/run/operator.sock") + 1;
  if (longest > sizeof(sockaddr_un::sun_path)) {
    return Error{Errc::kUsage,
                 "state directory " + path + ": its path is " +
                     std::to_string(longest - sizeof(sockaddr_un::sun_path)) +
                     " bytes too long for the Unix sockets in it; choose a shorter one"};
  }
  state.was_empty = !fs::exists(path, failed) || fs::is_empty(path, failed);
  if (auto made = make_all(state); !made) {
    take_back(state);
    return made.error();
  }
  return state;
}

void take_back(const MadeState& state) {
  std::error_code ignored;
  if (state.was_empty && fs::is_directory(state.path, ignored)) {
    for (const auto& entry : fs::directory_iterator(state.path, ignored)) {
      fs::remove_all(entry.path(), ignored);
    }
  }
  // A directory that got other contents stays.
  for (auto path = state.made.rbegin(); path != state.made.rend(); ++path) {
    fs::remove(*path, ignored);
  }
}

Result<Listener> listen_http(const std::string& address) {
  HOLDFAST_TRY(const HostPort where, split_address(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int rc = getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found); rc != 0) {
    return Error{Errc::kUsage, "--http " + address + ": " + gai_strerror(rc)};
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool up =
      fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1024) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (up) return Listener{fd, bound_url(fd, where.host)};
  if (fd >= 0) close(fd);
  const bool taken = error == EADDRINUSE;
  return Error{
      taken ? Errc::kConflict : Errc::kIo,
      "cannot listen on " + address + ": " + std::strerror(error) +
          (taken ? "; choose another with --http HOST:PORT (port 0 picks a free one)" : "")};
}

Result<std::vector<Listener>> inherited_listeners() {
  constexpr int kFirst = 3;
  const char* pid = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  const bool ours = pid != nullptr && count != nullptr && std::atol(pid) == getpid();
  const int fds = ours ? std::atoi(count) : 0;
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) unsetenv(name);
  std::vector<Listener> listeners;
  for (int fd = kFirst; fd < kFirst + fds; ++fd) {
    int listening = 0;
    socklen_t size = sizeof listening;
    sockaddr_storage name{};
    socklen_t name_size = sizeof name;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&name), &name_size) != 0 ||
        (name.ss_family != AF_INET && name.ss_family != AF_INET6)) {
      return Error{Errc::kUsage, "LISTEN_FDS: descriptor " + std::to_string(fd) +
                                     " is no listening TCP socket: ListenStream=HOST:PORT"};
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    listeners.push_back({fd, bound_url(fd, "")});
  }
  return listeners;
}

namespace {

/// Overwrites the file within its size; JSON may end in blanks. False if it is too small.
bool write_over(const std::string& path, const std::string& text) {
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  if (failed || size < text.size()) return false;
  std::string all = text;
  all.resize(size, ' ');
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file << all;
  file.flush();
  return file.good();
}

}  // namespace

Result<void> write_json_file(const std::string& path, std::string text) {
  constexpr std::size_t kPaddedBytes = 4096;  // so that it can be written on a full disk too
  text.resize(std::max(text.size(), kPaddedBytes), ' ');
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary, std::ios::trunc | std::ios::binary);
    file << text;
    file.flush();
    if (!file) {
      const Error error = io_error("write " + temporary);
      std::remove(temporary.c_str());
      if (write_over(path, text)) return {};
      return error;
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return io_error("rename to " + path);
  return {};
}

std::string supervisor_json(const std::string& http_url, const std::vector<ChildState>& children) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ChildState& child : children) {
    rows.push_back({{"role", child.role},
                    {"name", child.name},
                    {"pid", child.pid > 0 ? nlohmann::json(child.pid) : nlohmann::json()},
                    {"restarts", child.restarts}});
  }
  const nlohmann::json document = {{"pid", getpid()}, {"http", http_url}, {"children", rows}};
  return document.dump(2) + "\n";
}

namespace {

std::string last_line(const std::string& path, std::int64_t offset) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

/// The reason in "program: reason", for people; another line as it is.
std::string reason_in(const std::string& line) {
  const std::size_t colon = line.find(": ");
  const bool named = line.rfind("holdfast", 0) == 0 && colon < line.find(' ');
  return named ? line.substr(colon + 2) : line;
}

}  // namespace

std::string last_log_line(const std::string& path, std::int64_t offset) {
  const std::string last = last_line(path, offset);
  const auto parsed = try_parse_json<nlohmann::json>(last);
  if (!parsed.is_object()) return reason_in(last);
  std::string text = parsed.value("event", "");
  for (const auto& [key, value] : parsed.items()) {
    if (key == "time" || key == "level" || key == "program" || key == "event") continue;
    text += (text.empty() ? "" : "; ") + key + "=";
    text += value.is_string() ? value.get<std::string>() : value.dump();
  }
  return text;
}

std::string own_program() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed).string();
}

std::string program_folder() {
  const fs::path own = fs::path(own_program()).parent_path();
  const fs::path installed = own.parent_path() / "libexec" / "holdfast";
  std::error_code failed;
  if (fs::exists(own / "holdfastd", failed)) return own.string();
  return fs::exists(installed / "holdfastd", failed) ? installed.string() : own.string();
}

}  // namespace holdfast::cli

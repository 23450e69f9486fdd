#include "tests/process/webhook_target.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "shared/base/check.h"

namespace holdfast::process {

WebhookTarget::WebhookTarget(int port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  CHECK(listen(listener_, 16) == 0);
  socklen_t size = sizeof at;
  CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  port_ = ntohs(at.sin_port);
  thread_ = std::thread([this] { run(); });
}

WebhookTarget::~WebhookTarget() {
  stopping_ = true;
  thread_.join();
  close(listener_);
}

void WebhookTarget::run() {
  while (!stopping_) {
    pollfd ready{listener_, POLLIN, 0};
    if (poll(&ready, 1, 50) <= 0) continue;
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    serve(fd);
    close(fd);
  }
}

void WebhookTarget::serve(int fd) {
  std::string in;
  std::size_t head = std::string::npos;
  std::size_t length = 0;
  ReceivedRequest received;
  char buffer[4096];
  while (head == std::string::npos || in.size() < head + 4 + length) {
    pollfd ready{fd, POLLIN, 0};
    const ssize_t n = poll(&ready, 1, 5'000) > 0 ? read(fd, buffer, sizeof buffer) : 0;
    if (n <= 0) return;
    in.append(buffer, static_cast<std::size_t>(n));
    if (head != std::string::npos) continue;
    head = in.find("\r\n\r\n");
    if (head == std::string::npos) continue;
    std::istringstream lines(in.substr(0, head));
    std::string line;
    std::getline(lines, line);
    received.path = line.substr(0, line.rfind(' '));
    while (std::getline(lines, line)) {
      std::string name = line.substr(0, line.find(':'));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      std::string value = line.substr(std::min(line.size(), line.find(':') + 2));
      if (value.ends_with('\r')) value.pop_back();
      received.headers[name] = value;
    }
    length = static_cast<std::size_t>(std::stoul(received.headers["content-length"]));
  }
  received.body = in.substr(head + 4);
  {
    const std::lock_guard lock(mutex_);
    received_.push_back(std::move(received));
  }
  const int status = status_;
  std::string out = "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: 2\r\n";
  if (status == 302) out += "Location: " + url() + "/elsewhere\r\n";
  out += "Connection: close\r\n\r\nok";
  (void)!write(fd, out.data(), out.size());
}

std::vector<WebhookTarget::ReceivedRequest> WebhookTarget::wait_for(std::size_t count,
                                                                    int patience_s) {
  for (int i = 0;; ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (received_.size() >= count || i >= patience_s * 50) return received_;
    }
    usleep(20'000);
  }
}

}  // namespace holdfast::process

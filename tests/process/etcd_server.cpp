#include "tests/process/etcd_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/check.h"

namespace holdfast::process {

std::string free_address() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(fd);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

bool EtcdServer::start() {
  const std::string program = std::string(HOLDFAST_BUILD_DIR) + "/tools/etcd";
  if (access(program.c_str(), X_OK) != 0) return false;
  if (url_.empty()) {
    url_ = "http://" + free_address();
    peer_url_ = "http://" + free_address();
  }
  process_ = std::make_unique<Running>(
      std::vector<std::string>{program, "--data-dir", dir_.path() + "/etcd", "--name", "one",
                               "--listen-client-urls", url_, "--advertise-client-urls", url_,
                               "--listen-peer-urls", peer_url_, "--initial-advertise-peer-urls",
                               peer_url_, "--initial-cluster", "one=" + peer_url_},
      dir_.path() + "/etcd.out");
  return process_->says("ready to serve client requests");
}

void EtcdServer::stop() {
  process_->end(SIGKILL);
}

}  // namespace holdfast::process

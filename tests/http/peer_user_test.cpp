// Goal: a gateway without keys tells the users of its machine apart: the user of a connection's
// other end is found while a process holds it and not afterwards, and a page or a name from
// elsewhere gets nothing on any path. Method: real loopback connections, one of them by a child of
// another user; tables of hosts and headers against every route.
#include "control/gateway/http/peer_user.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "control/gateway/http/page_guard.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::peer_user_test {
namespace {

using gateway::PeerUsers;
using gateway::TcpEnds;

constexpr uid_t kOther = 65'534;

TcpEnds::End end_of(const sockaddr_in6& address) {
  TcpEnds::End end;
  end.port = ntohs(address.sin6_port);
  std::memcpy(end.address.data(), &address.sin6_addr, 16);
  return end;
}
TcpEnds::End end_of(const sockaddr_in& address) {
  TcpEnds::End end;
  end.port = ntohs(address.sin_port);
  std::memcpy(end.address.data(), &address.sin_addr, 4);
  return end;
}

/// A listener at loopback and the connections that come to it.
template <class Address>
class ListeningSocket {
 public:
  explicit ListeningSocket(const Address& where) : address_(where) {
    socklen_t size = sizeof address_;
    auto* raw = reinterpret_cast<sockaddr*>(&address_);
    fd_ = socket(raw->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    good = bind(fd_, raw, size) == 0 && listen(fd_, 8) == 0 && getsockname(fd_, raw, &size) == 0;
  }
  ~ListeningSocket() { close(fd_); }
  int connect() const {
    const int fd = socket(reinterpret_cast<const sockaddr*>(&address_)->sa_family,
                          SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
    return fd;
  }
  int accept(TcpEnds* ends) const {
    Address peer{};
    socklen_t size = sizeof peer;
    const int fd = ::accept(fd_, reinterpret_cast<sockaddr*>(&peer), &size);
    EXPECT_GE(fd, 0);
    ends->v6 = sizeof(Address) == sizeof(sockaddr_in6);
    ends->client = end_of(peer);
    ends->server = end_of(address_);
    return fd;
  }
  bool good = false;

 private:
  Address address_;
  int fd_ = -1;
};

template <class Address>
void expect_found_while_connected(const Address& where, PeerUsers& users) {
  const ListeningSocket<Address> listener(where);
  if (!listener.good) GTEST_SKIP() << "no such loopback address here";
  TcpEnds ends;
  const int client = listener.connect();
  const int server = listener.accept(&ends);
  EXPECT_EQ(users.find(ends), std::optional<uid_t>(geteuid()));
  shutdown(client, SHUT_WR);
  EXPECT_EQ(users.find(ends), std::optional<uid_t>(geteuid())) << "it still reads";
  TcpEnds wrong = ends;
  ++wrong.client.port;
  EXPECT_EQ(users.find(wrong), std::nullopt);
  close(client);
  EXPECT_EQ(users.find(ends), std::nullopt) << "what is left of it looks like root's";
  close(server);
  if (geteuid() != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(kOther, kOther, kOther) != 0) _exit(1);
    const int fd = listener.connect();
    char byte = 0;
    (void)!read(fd, &byte, 1);
    _exit(0);
  }
  const int other = listener.accept(&ends);
  EXPECT_EQ(users.find(ends), std::optional<uid_t>(kOther));
  close(other);
  waitpid(child, nullptr, 0);
}

sockaddr_in loopback_v4() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}
sockaddr_in6 loopback_v6() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return address;
}

TEST(PeerUser, PeerUid_WhileAProcessHoldsTheOtherEnd_IsFound) {
  for (const bool ask_kernel : {true, false}) {
    PeerUsers users(ask_kernel);
    expect_found_while_connected(loopback_v4(), users);
    expect_found_while_connected(loopback_v6(), users);
  }
}

TEST(PeerUser, Connection_WhenPeerIsAnotherUser_Returns401WithAHint) {
  EXPECT_FALSE(gateway::refuse_other_user(1000, 1000));
  EXPECT_FALSE(gateway::refuse_other_user(0, 1000));
  for (const std::optional<uid_t> peer :
       {std::optional<uid_t>(1001), std::optional<uid_t>(65'534), std::optional<uid_t>()}) {
    const auto refused = gateway::refuse_other_user(peer, 1000);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 401);
    EXPECT_NE(refused->body.find("holdfast keys create"), std::string::npos) << refused->body;
  }
  EXPECT_TRUE(gateway::refuse_other_user(1000, 0)) << "root's gateway is root's alone";
}

struct NoKeys {
  NoKeys() {
    gateway.client.op_results["objects.list"] = R"({"more": false, "objects": []})";
    gateway.context().operating = &gateway.client;
    gateway.context().object_store = &object_store;
    gateway.context().access = std::make_shared<gateway::Access>(object_store, true);
  }
  Gateway gateway;
  gateway::ObjectStore object_store{gateway.client};
};

TEST(PeerUser, KeylessGateway_WhenHostOrOriginIsForeign_RefusesEveryRoute) {
  NoKeys fixture;
  const std::string here = "Host: 127.0.0.1:8080\r\n";
  const struct {
    const char* name;
    std::string target, headers;
    bool of_page;  // sent by a page, which may see what has no data
  } kWays[] = {{"a foreign name", "", "Host: attacker.example\r\n", false},
               {"a foreign name with a port", "", "Host: attacker.example:8080\r\n", false},
               {"a name that begins like ours", "", "Host: localhost.attacker.example\r\n", false},
               {"an absolute target", "http://attacker.example", here, false},
               {"an absolute target of ours", "http://127.0.0.1:8080", here, false},
               {"a page elsewhere", "", here + "Sec-Fetch-Site: cross-site\r\n", true},
               {"a page of another port", "", here + "Sec-Fetch-Site: same-site\r\n", true},
               {"a page with its origin", "", here + "Origin: https://attacker.example\r\n", true}};
  // The first request that needs a key makes it known that there is none.
  ASSERT_EQ(fixture.gateway.ask("GET /v1/models HTTP/1.1\r\n" + here + "\r\n").status, 200);
  int queries = 0;
  for (const auto& route : gateway::routes()) {
    std::string path(route.pattern);
    for (std::size_t at; (at = path.find("{")) != std::string::npos;) {
      path.replace(at, path.find('}', at) - at + 1, "x");
    }
    const bool of_nobody = path.starts_with("/health") ||
                           (path.starts_with("/console") && !path.starts_with("/console/api"));
    for (const auto& way : kWays) {
      if (way.of_page && of_nobody) continue;
      const std::string body = route.method == "POST" ? "Content-Length: 2\r\n\r\n{}" : "\r\n";
      const Reply reply = fixture.gateway.ask(std::string(route.method) + " " + way.target + path +
                                              " HTTP/1.1\r\n" + way.headers + body);
      EXPECT_EQ(reply.status, 403) << way.name << ": " << route.method << " " << path << "\n"
                                   << reply.body;
      ++queries;
    }
  }
  EXPECT_GT(queries, 200);
  EXPECT_EQ(fixture.gateway.ask("GET /v1/models HTTP/1.0\r\n\r\n").status, 403) << "no name at all";
  EXPECT_EQ(fixture.gateway
                .ask("GET /v1/models HTTP/1.1\r\nHost: [::1]:9\r\nSec-Fetch-Site: none\r\n\r\n")
                .status,
            200);
}

}  // namespace
}  // namespace holdfast::test::peer_user_test

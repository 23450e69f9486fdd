// Goal: one server answers on every address that it was given, by --http or by the service manager,
// also after the gateway was killed; what is no listening socket is refused by name. Method: real
// servers on free ports of this machine; sockets handed down as systemd does it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "ops/serve/state_dir.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::listeners_test {
namespace {

/// An address that is free a moment from now.
std::string free_address() {
  const auto listener = cli::listen_http("127.0.0.1:0");
  EXPECT_TRUE(listener.has_value());
  close(listener->fd);
  return listener->url.substr(std::string("http://").size());
}

int status_of(const std::string& url, const std::string& path) {
  return http_exchange(url, http_get_text(path)).status;
}

/// True once the URL answers 200, within a minute.
bool answers(const std::string& url) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < until) {
    if (status_of(url, "/health/live") == 200) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST(Listeners, Server_WithTwoAddresses_AnswersOnBothAfterTheGatewayDied) {
  const TempDir dir;
  TestServer server{dir.path() + "/state"};
  const std::string second = "http://" + free_address();
  ASSERT_TRUE(server.start({"--engine", "fake", "--http", "127.0.0.1:0", "--http",
                            second.substr(std::string("http://").size())}))
      << server.errors();
  EXPECT_NE(server.url(), second);
  for (const std::string& url : {server.url(), second}) {
    EXPECT_EQ(status_of(url, "/v1/models"), 200) << url;
    EXPECT_EQ(status_of(url, "/api/tags"), 200) << url;
  }
  ASSERT_TRUE(server.kill_child("gateway"));
  EXPECT_TRUE(answers(server.url()));
  EXPECT_TRUE(answers(second));
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

TEST(Listeners, NoHttp_NextToAnAddress_IsRefused) {
  const TempDir dir;
  const Ended ended =
      run_program({"holdfast", "serve", "--engine", "fake", "--state", dir.path() + "/state",
                   "--http", "none", "--http", "127.0.0.1:0"});
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_NE(ended.err.find("none"), std::string::npos) << ended.err;
}

/// Runs `work` in a child whose descriptors from 3 on are `fds`, as systemd starts a service;
/// returns its exit status.
template <class Work>
int as_a_service(const std::vector<int>& fds, Work work) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<int> safe;
    for (const int fd : fds) safe.push_back(fcntl(fd, F_DUPFD, 100));
    for (std::size_t i = 0; i < safe.size(); ++i) dup2(safe[i], static_cast<int>(3 + i));
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    setenv("LISTEN_FDS", std::to_string(fds.size()).c_str(), 1);
    _exit(work());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Listeners, InheritedSockets_WhenListening_AreTakenOnce) {
  const auto first = cli::listen_http("127.0.0.1:0");
  const auto second = cli::listen_http("127.0.0.1:0");
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(as_a_service({first->fd, second->fd},
                         [&] {
                           const auto taken = cli::inherited_listeners();
                           if (!taken || taken->size() != 2) return 1;
                           if ((*taken)[0].url != first->url) return 2;
                           if ((*taken)[1].url != second->url) return 3;
                           return cli::inherited_listeners()->empty() ? 0 : 4;
                         }),
            0);
  const int plain = open("/dev/null", O_RDONLY);
  EXPECT_EQ(as_a_service({plain},
                         [] {
                           const auto taken = cli::inherited_listeners();
                           return !taken && taken.error().code == Errc::kUsage ? 0 : 1;
                         }),
            0);
  // Sockets of another process are not ours.
  setenv("LISTEN_PID", "1", 1);
  setenv("LISTEN_FDS", "1", 1);
  EXPECT_TRUE(cli::inherited_listeners()->empty());
  for (const int fd : {first->fd, second->fd, plain}) close(fd);
}

TEST(Listeners, Server_StartedOverASocket_AnswersThere) {
  const TempDir dir;
  const auto listener = cli::listen_http("127.0.0.1:0");
  ASSERT_TRUE(listener.has_value());
  const std::string program = std::string(HOLDFAST_BIN_DIR) + "/holdfast";
  const std::string state = dir.path() + "/state";
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_fds[1], 1);
    const int safe = fcntl(listener->fd, F_DUPFD, 100);
    dup2(safe, 3);
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    setenv("LISTEN_FDS", "1", 1);
    execl(program.c_str(), "holdfast", "serve", "--state", state.c_str(), "--engine", "fake",
          "--quiet", nullptr);
    _exit(127);
  }
  close(pipe_fds[1]);
  // A client may come before the server has begun: it waits in the socket.
  EXPECT_EQ(status_of(listener->url, "/health/live"), 200);
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  close(pipe_fds[0]);
  close(listener->fd);
}

}  // namespace
}  // namespace holdfast::process::listeners_test

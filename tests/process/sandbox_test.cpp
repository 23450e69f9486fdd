// Goal: every process of a running server is confined and reports so truly, each socket accepts
// only the programs that it is for, and a start as root can give root up. Method: a real server;
// the kernel's view of its processes; the CLI under another program's name; the SDK at the
// gateway's socket.

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "control/endpoints/peer_role.h"
#include "shared/sandbox/report.h"
#include "tests/process/test_server.h"

namespace holdfast::process::sandbox_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::vector<std::string> kChildren = {"daemon", "ingress-0", "worker-0", "gateway"};

std::string status_field(pid_t pid, const std::string& name) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = text.find("\n" + name + ":");
  if (at == std::string::npos) return {};
  const std::size_t begin = text.find_first_not_of(" \t", at + name.size() + 2);
  return text.substr(begin, text.find_first_of("\t\n", begin) - begin);
}

bool is_relaxed(const TestServer& server) {
  const auto report = sandbox::read_report(server.state() + "/run", server.pid_of("daemon"));
  return report.has_value() && report->relaxed;
}

struct SandboxTest : testing::Test {
  TempDir dir;
  TestServer server{dir.path() + "/state"};
  void start(std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"--model", "demo=" + demo_model(), "--engine", "fake"};
    flags.insert(flags.end(), more.begin(), more.end());
    ASSERT_TRUE(server.start(flags)) << server.errors();
  }
};

TEST_F(SandboxTest, Sandbox_WhileServing_ConfinesEveryProcessAsDoctorReports) {
  start();
  for (const std::string& name : kChildren) {
    EXPECT_EQ(status_field(server.pid_of(name), "NoNewPrivs"), "1") << name;
    if (is_relaxed(server)) continue;
    EXPECT_EQ(status_field(server.pid_of(name), "Seccomp"), "2") << name;
    const auto report = sandbox::read_report(server.state() + "/run", server.pid_of(name));
    ASSERT_TRUE(report.has_value()) << name;
    EXPECT_TRUE(report->calls) << name;
    EXPECT_EQ(report->landlock_abi, sandbox::landlock_abi()) << name;
  }
  EXPECT_EQ(status_field(server.supervisor_pid(), "NoNewPrivs"), "1");
  const Ended doctor = server.cli({"--json", "doctor"});
  const bool whole = !is_relaxed(server) && sandbox::landlock_abi() > 0;
  EXPECT_EQ(doctor.out.find("sandbox in force") != std::string::npos, whole) << doctor.out;
  for (const std::string& name : kChildren) {
    EXPECT_NE(doctor.out.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(doctor.out.find("which are not used"), std::string::npos);
}

TEST_F(SandboxTest, Sandbox_WithoutLandlock_ServesAndDoctorReportsIt) {
  setenv("HOLDFAST_TEST_LANDLOCK_ABI", "0", 1);
  start();
  unsetenv("HOLDFAST_TEST_LANDLOCK_ABI");
  if (is_relaxed(server)) GTEST_SKIP() << "a build that confines nothing";
  const Ended doctor = server.cli({"--json", "doctor"});
  EXPECT_NE(doctor.out.find("no Landlock"), std::string::npos) << doctor.out;
  const auto client = server.client();
  EXPECT_EQ(submit_and_stream(*client, make_submit("a", 4, 1)).ids.size(), 4u);
}

TEST_F(SandboxTest, OperatorSocket_WhenAConfinedProgramConnects_RefusesIt) {
  start();
  const std::string program = std::string(HOLDFAST_BIN_DIR) + "/holdfast";
  for (const char* name : {"holdfast-worker", "holdfast-ingress", "holdfast-gateway"}) {
    const std::string copy = dir.path() + "/" + name;  // the kernel uses this name
    fs::copy_file(program, copy);
    const Ended ended = run_program({copy, "--json", "--state", server.state(), "status"});
    EXPECT_EQ(ended.code, 4) << ended.out << ended.err;
    EXPECT_NE((ended.out + ended.err).find("unauthorized"), std::string::npos) << ended.err;
  }
  EXPECT_EQ(server.cli({"--json", "status"}).code, 0);
}

TEST_F(SandboxTest, GatewaySocket_WithAVerbNotOnItsList_RefusesIt) {
  start();
  const auto client =
      client::Client::connect("ipc://" + server.state() + "/run/gateway.sock", {}).value();
  EXPECT_TRUE(
      std::holds_alternative<std::string>(client->op(client::AllTenants::local(), "status", "{}")));
  for (const char* verb : {"db.backup", "supervisor.worker_exit", "shutdown", "models.golden"}) {
    const auto answer =
        client->op(client::AllTenants::local(), verb, R"({"path":"/tmp/holdfast-no-such-copy"})");
    const auto* failure = std::get_if<client::Failure>(&answer);
    ASSERT_NE(failure, nullptr) << verb;
    EXPECT_EQ(failure->code, Errc::kUnauthorized) << verb << failure->message;
  }
  EXPECT_FALSE(fs::exists("/tmp/holdfast-no-such-copy"));
  // Keys of the API are read to be checked; those of other machines are none of its business.
  for (const char* verb : {"objects.put", "objects.get", "objects.list", "objects.delete"}) {
    const auto answer = client->op(client::AllTenants::local(), verb,
                                   R"({"kind":"peer_key","id":"node.mine","owner":"operator",)"
                                   R"("version":0,"body":{"role":"node"}})");
    const auto* failure = std::get_if<client::Failure>(&answer);
    ASSERT_NE(failure, nullptr) << verb;
    EXPECT_EQ(failure->code, Errc::kUnauthorized) << verb << failure->message;
  }
  EXPECT_TRUE(std::holds_alternative<std::string>(
      client->op(client::AllTenants::local(), "objects.list", R"({"kind":"key"})")));
  struct stat st {};
  ASSERT_EQ(stat((server.state() + "/run").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
}

TEST(GatewayVerbs, GatewayVerbs_InTheSources_AreAllOnTheList) {
  std::set<std::string> found;
  const std::regex verb(
      R"re("((?:config|db|keys|models|objects|queue|requests|workers)\.[a-z_]+)")re");
  for (const auto& entry :
       fs::recursive_directory_iterator(HOLDFAST_SOURCE_DIR "/control/gateway")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read_file(entry.path().string());
    for (std::sregex_iterator it(text.begin(), text.end(), verb), end; it != end; ++it) {
      found.insert((*it)[1]);
    }
  }
  EXPECT_GE(found.size(), 30u);
  for (const std::string& name : found) EXPECT_TRUE(daemon::is_gateway_verb(name)) << name;
}

TEST(PeerRole, PeerRole_OnEachSocket_AdmitsOnlyItsPrograms) {
  using daemon::PeerProgram;
  using daemon::Role;
  const wire::PeerCredentials same_user{true, 1000, 7}, root{true, 0, 7}, other{true, 1001, 7};
  const auto in = [&](Role role, PeerProgram program) {
    return daemon::reason_to_refuse(role, same_user, program, 1000).empty();
  };
  for (const Role role :
       {Role::kWorker, Role::kOperator, Role::kIngress, Role::kClient, Role::kGateway}) {
    EXPECT_TRUE(in(role, PeerProgram::kOther));
    EXPECT_EQ(daemon::reason_to_refuse(role, root, PeerProgram::kOther, 1000), "");
    EXPECT_NE(daemon::reason_to_refuse(role, other, PeerProgram::kOther, 1000), "");
    EXPECT_NE(daemon::reason_to_refuse(role, {}, PeerProgram::kOther, 1000), "");
    EXPECT_EQ(in(role, PeerProgram::kWorker), role == Role::kWorker);
    EXPECT_EQ(in(role, PeerProgram::kHelper), role == Role::kIngress);
    EXPECT_EQ(in(role, PeerProgram::kGateway), role == Role::kClient || role == Role::kGateway);
    EXPECT_EQ(in(role, PeerProgram::kElsewhere), role != Role::kOperator);
  }
}

TEST(PeerRole, PeerAddress_OfANetworkPeer_GivesNoCredentials) {
  for (const char* address : {"", "127.0.0.1:80", "[::1]:80:1:2", "10.0.0.1:1:2:3:4",
                              "localhost:0:0:x", "localhost:1:2"}) {
    EXPECT_FALSE(wire::parse_peer_address(address).identified) << address;
  }
  const auto peer = wire::parse_peer_address("localhost:1000:100:4321");
  EXPECT_TRUE(peer.identified);
  EXPECT_EQ(peer.uid, 1000);
  EXPECT_EQ(peer.pid, 4321);
}

TEST(DropUser, Serve_WhenStartedAsRootWithUser_RunsAsThatUser) {
  const passwd* nobody = getpwnam("nobody");
  if (geteuid() != 0 || nobody == nullptr) GTEST_SKIP() << "not root";
  const std::string program = std::string(HOLDFAST_BIN_DIR) + "/holdfast";
  for (fs::path path = program; path != path.root_path(); path = path.parent_path()) {
    struct stat st {};
    if (stat(path.c_str(), &st) != 0 || (st.st_mode & 0001) == 0) {
      GTEST_SKIP() << path << " is closed to other users";
    }
  }
  char folder[] = "/tmp/holdfast-user-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  ASSERT_EQ(chown(folder, nobody->pw_uid, nobody->pw_gid), 0);
  {
    TestServer server(std::string(folder) + "/state");
    fs::create_directories(server.state());  // the server may have made it, as root
    ASSERT_EQ(chown(server.state().c_str(), nobody->pw_uid, nobody->pw_gid), 0);
    ASSERT_TRUE(server.start({"--engine", "fake", "--user", "nobody"})) << server.errors();
    for (const std::string& name : kChildren) {
      const pid_t pid = server.pid_of(name);
      EXPECT_EQ(status_field(pid, "Uid"), std::to_string(nobody->pw_uid)) << name;
      EXPECT_EQ(status_field(pid, "Gid"), std::to_string(nobody->pw_gid)) << name;
      EXPECT_EQ(status_field(pid, "CapBnd"), "0000000000000000") << name;
    }
    EXPECT_EQ(server.stop(), 0);
    TestServer again(std::string(folder) + "/state");
    EXPECT_FALSE(again.start({"--engine", "fake", "--user", "no-such-user"}));
    EXPECT_EQ(again.exit_code(), 2);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace holdfast::process::sandbox_test

// Goal: every process of a served house is confined and says so truly, each socket lets in only
// those whose business it is, and a start as root can give root up. Method: a real house; what the
// kernel says of its processes; the CLI under another program's name; the SDK at the gateway's
// socket.

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "control/link/peer_role.h"
#include "shared/sandbox/report.h"
#include "tests/process/house.h"

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

bool is_relaxed(const House& house) {
  const auto report = sandbox::read_report(house.state() + "/run", house.pid_of("daemon"));
  return report.has_value() && report->relaxed;
}

struct SandboxTest : testing::Test {
  TempDir dir;
  House house{dir.path() + "/state"};
  void start(std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"--model", "demo=" + demo_model(), "--engine", "fake"};
    flags.insert(flags.end(), more.begin(), more.end());
    ASSERT_TRUE(house.start(flags)) << house.errors();
  }
};

TEST_F(SandboxTest, EveryProcessIsConfinedAndDoctorSaysSo) {
  start();
  for (const std::string& name : kChildren) {
    EXPECT_EQ(status_field(house.pid_of(name), "NoNewPrivs"), "1") << name;
    if (is_relaxed(house)) continue;
    EXPECT_EQ(status_field(house.pid_of(name), "Seccomp"), "2") << name;
    const auto report = sandbox::read_report(house.state() + "/run", house.pid_of(name));
    ASSERT_TRUE(report.has_value()) << name;
    EXPECT_TRUE(report->calls) << name;
    EXPECT_EQ(report->landlock_abi, sandbox::landlock_abi()) << name;
  }
  EXPECT_EQ(status_field(house.supervisor_pid(), "NoNewPrivs"), "1");
  const Ended doctor = house.cli({"--json", "doctor"});
  const bool whole = !is_relaxed(house) && sandbox::landlock_abi() > 0;
  EXPECT_EQ(doctor.out.find("sandbox in force") != std::string::npos, whole) << doctor.out;
  for (const std::string& name : kChildren) {
    EXPECT_NE(doctor.out.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(doctor.out.find("which are not used"), std::string::npos);
}

TEST_F(SandboxTest, AnOldKernelIsSaidToHaveNoLandlockAndEverythingWorks) {
  setenv("HOLDFAST_TEST_LANDLOCK_ABI", "0", 1);
  start();
  unsetenv("HOLDFAST_TEST_LANDLOCK_ABI");
  if (is_relaxed(house)) GTEST_SKIP() << "a build that confines nothing";
  const Ended doctor = house.cli({"--json", "doctor"});
  EXPECT_NE(doctor.out.find("no Landlock"), std::string::npos) << doctor.out;
  const auto client = house.client();
  EXPECT_EQ(hear(*client, make_submit("a", 4, 1)).ids.size(), 4u);
}

TEST_F(SandboxTest, AConfinedProgramIsRefusedAtTheOperatorsSocket) {
  start();
  const std::string program = std::string(HOLDFAST_BIN_DIR) + "/holdfast";
  for (const char* name : {"holdfast-worker", "holdfast-ingress", "holdfast-gateway"}) {
    const std::string copy = dir.path() + "/" + name;  // the kernel names it so
    fs::copy_file(program, copy);
    const Ended ended = run_program({copy, "--json", "--state", house.state(), "status"});
    EXPECT_EQ(ended.code, 4) << ended.out << ended.err;
    EXPECT_NE((ended.out + ended.err).find("unauthorized"), std::string::npos) << ended.err;
  }
  EXPECT_EQ(house.cli({"--json", "status"}).code, 0);
}

TEST_F(SandboxTest, TheGatewaysSocketHasItsVerbsAndNoOthers) {
  start();
  const auto client =
      client::Client::connect("ipc://" + house.state() + "/run/gateway.sock", {}).value();
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
  struct stat st {};
  ASSERT_EQ(stat((house.state() + "/run").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
}

TEST(GatewayVerbs, EachOneThatTheGatewayAsksForIsOnItsList) {
  std::set<std::string> found;
  const std::regex verb(
      R"re("((?:config|db|keys|models|objects|queue|requests|workers)\.[a-z_]+)")re");
  for (const auto& entry : fs::directory_iterator(HOLDFAST_SOURCE_DIR "/control/gateway")) {
    const std::string text = read_file(entry.path().string());
    for (std::sregex_iterator it(text.begin(), text.end(), verb), end; it != end; ++it) {
      found.insert((*it)[1]);
    }
  }
  EXPECT_GE(found.size(), 30u);
  for (const std::string& name : found) EXPECT_TRUE(link::is_gateway_verb(name)) << name;
}

TEST(PeerRole, EachSocketIsForItsOwn) {
  using link::PeerProgram;
  using link::Role;
  const wire::PeerCredentials own{true, 1000, 7}, root{true, 0, 7}, other{true, 1001, 7};
  const auto in = [&](Role door, PeerProgram program) {
    return link::reason_to_refuse(door, own, program, 1000).empty();
  };
  for (const Role door :
       {Role::kWorker, Role::kOperator, Role::kIngress, Role::kClient, Role::kGateway}) {
    EXPECT_TRUE(in(door, PeerProgram::kOther));
    EXPECT_EQ(link::reason_to_refuse(door, root, PeerProgram::kOther, 1000), "");
    EXPECT_NE(link::reason_to_refuse(door, other, PeerProgram::kOther, 1000), "");
    EXPECT_NE(link::reason_to_refuse(door, {}, PeerProgram::kOther, 1000), "");
    EXPECT_EQ(in(door, PeerProgram::kWorker), door == Role::kWorker);
    EXPECT_EQ(in(door, PeerProgram::kHelper), door == Role::kIngress);
    EXPECT_EQ(in(door, PeerProgram::kGateway), door == Role::kClient || door == Role::kGateway);
    EXPECT_EQ(in(door, PeerProgram::kElsewhere), door != Role::kOperator);
  }
}

TEST(PeerRole, AddressesOfTheNetworkAreNoCredentials) {
  for (const char* address : {"", "127.0.0.1:80", "[::1]:80:1:2", "10.0.0.1:1:2:3:4",
                              "localhost:0:0:x", "localhost:1:2"}) {
    EXPECT_FALSE(wire::parse_peer_address(address).known) << address;
  }
  const auto peer = wire::parse_peer_address("localhost:1000:100:4321");
  EXPECT_TRUE(peer.known);
  EXPECT_EQ(peer.uid, 1000);
  EXPECT_EQ(peer.pid, 4321);
}

TEST(DropUser, AStartAsRootServesAsAnotherUser) {
  const passwd* nobody = getpwnam("nobody");
  if (geteuid() != 0 || nobody == nullptr) GTEST_SKIP() << "not root";
  const std::string program = std::string(HOLDFAST_BIN_DIR) + "/holdfast";
  for (fs::path path = program; path != path.root_path(); path = path.parent_path()) {
    struct stat st {};
    if (stat(path.c_str(), &st) != 0 || (st.st_mode & 0001) == 0) {
      GTEST_SKIP() << path << " is closed to other users";
    }
  }
  char place[] = "/tmp/holdfast-user-XXXXXX";
  ASSERT_NE(mkdtemp(place), nullptr);
  ASSERT_EQ(chown(place, nobody->pw_uid, nobody->pw_gid), 0);
  {
    House house(std::string(place) + "/state");
    fs::create_directories(house.state());  // the house may have made it, as root
    ASSERT_EQ(chown(house.state().c_str(), nobody->pw_uid, nobody->pw_gid), 0);
    ASSERT_TRUE(house.start({"--engine", "fake", "--user", "nobody"})) << house.errors();
    for (const std::string& name : kChildren) {
      const pid_t pid = house.pid_of(name);
      EXPECT_EQ(status_field(pid, "Uid"), std::to_string(nobody->pw_uid)) << name;
      EXPECT_EQ(status_field(pid, "Gid"), std::to_string(nobody->pw_gid)) << name;
      EXPECT_EQ(status_field(pid, "CapBnd"), "0000000000000000") << name;
    }
    EXPECT_EQ(house.stop(), 0);
    House again(std::string(place) + "/state");
    EXPECT_FALSE(again.start({"--engine", "fake", "--user", "no-such-user"}));
    EXPECT_EQ(again.exit_code(), 2);
  }
  fs::remove_all(place);
}

}  // namespace
}  // namespace holdfast::process::sandbox_test

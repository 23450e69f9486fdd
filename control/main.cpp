// holdfastd: the control plane.

#include <signal.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "control/daemon/config_import.h"
#include "control/daemon/daemon.h"
#include "control/daemon/offline.h"
#include "control/daemon/state_dir.h"
#include "control/replication/role.h"
#include "shared/base/crash_point.h"
#include "shared/base/exit_status.h"
#include "shared/base/log.h"
#include "shared/base/standard_files.h"
#include "shared/base/state_dir.h"
#include "shared/base/version.h"
#include "shared/sandbox/report.h"
#include "shared/sandbox/rights.h"
#include "shared/wire/frame.h"

namespace {

using holdfast::Errc;
using holdfast::Error;
using holdfast::Result;

holdfast::daemon::Daemon* g_daemon = nullptr;
std::atomic<bool> g_stop{false};

void on_signal(int) {
  g_stop.store(true);
  if (g_daemon != nullptr) g_daemon->request_stop();
}

constexpr const char* kUsage =
    "usage: holdfastd --state DIR [--config NAME=VALUE]… [--config-file FILE]\n"
    "                 [--listen tcp://HOST:PORT]   for other machines, by keys\n"
    "                 [--advertise tcp://HOST:PORT] where others reach it\n"
    "                 [--record URL[,URL…]/KEY]    etcd, or k8s://NAMESPACE/LEASE, decides who\n"
    "                                              is the primary\n"
    "                 [--standby-of tcp://HOST:PORT] [--standby-key FILE]\n"
    "       holdfastd --state DIR --op VERB [--args JSON]   one operator verb, while no daemon "
    "runs;\n"
    "                                                       prints an encoded OP_RESULT\n"
    "The control plane of Holdfast. `holdfast config list` names the knobs. Settings come from "
    "the\n"
    "file (default DIR/holdfast.conf), HOLDFAST_… variables and --config, in this order; what one "
    "of\n"
    "them says is taken over when it has changed since the last start.\n";

struct Arguments {
  holdfast::daemon::DaemonOptions daemon;
  holdfast::replication::PairPlan pair;
  holdfast::wire::Op op;  // without a verb: serve
};

Result<std::vector<holdfast::core::ConfigImport>> read_imports(
    const std::string& state_dir, std::string file, const std::vector<std::string>& assignments) {
  std::vector<holdfast::core::ConfigImport> imports;
  const std::string standard = state_dir + "/holdfast.conf";
  if (file.empty() && access(standard.c_str(), F_OK) == 0) file = standard;
  // A source that is empty now may have had values at the last start.
  holdfast::core::ConfigImport none{"file", standard, {}};
  if (file.empty()) {
    imports.push_back(std::move(none));
  } else {
    HOLDFAST_TRY(auto import, holdfast::daemon::import_file(file));
    imports.push_back(std::move(import));
  }
  HOLDFAST_TRY(auto environment, holdfast::daemon::import_environment(environ));
  imports.push_back(std::move(environment));
  HOLDFAST_TRY(auto command_line, holdfast::daemon::import_command_line(assignments));
  imports.push_back(std::move(command_line));
  return imports;
}

Result<Arguments> read_arguments(int argc, char** argv) {
  Arguments arguments;
  holdfast::daemon::DaemonOptions& options = arguments.daemon;
  std::vector<std::string> assignments;
  std::string file;
  options.state_dir = holdfast::default_state_dir();
  const std::map<std::string_view, std::string*> texts = {
      {"--state", &options.state_dir},
      {"--config-file", &file},
      {"--listen", &options.listen},
      {"--advertise", &arguments.pair.url},
      {"--record", &arguments.pair.record},
      {"--standby-of", &arguments.pair.primary},
      {"--standby-key", &arguments.pair.key_file},
      {"--op", &arguments.op.verb},
      {"--args", &arguments.op.args}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const auto text = texts.find(name);
    if (text == texts.end() && name != "--config") {
      return Error{Errc::kUsage, "unknown argument \"" + std::string(name) + "\""};
    }
    if (i + 1 == argc) return Error{Errc::kUsage, std::string(name) + ": expected a value"};
    const char* value = argv[++i];
    if (text != texts.end()) {
      *text->second = value;
    } else {
      assignments.emplace_back(value);
    }
  }
  if (arguments.pair.url.empty()) arguments.pair.url = options.listen;
  arguments.pair.state_dir = options.state_dir;
  HOLDFAST_CHECKED(holdfast::replication::check_plan(arguments.pair));
  HOLDFAST_TRY(options.imports, read_imports(options.state_dir, file, assignments));
  return arguments;
}

/// Runs one operator verb without a daemon. The answer goes to stdout as the OP_RESULT that a
/// daemon would have sent, errors included.
int operate(const Arguments& arguments) {
  holdfast::wire::OpResult result;
  auto answer = holdfast::daemon::operate_offline(arguments.daemon.state_dir,
                                                  holdfast::system_clock(), arguments.op);
  if (answer) {
    result.ok = answer->ok;
    result.refusal = answer->refusal;
    result.result = answer->document;
  } else {
    result.refusal.code = answer.error().code;
    result.refusal.message = answer.error().what;
  }
  const std::string frame = holdfast::wire::encode(result);
  std::fwrite(frame.data(), 1, frame.size(), stdout);
  return std::fflush(stdout) == 0 ? 0 : holdfast::exit_status::kStorage;
}

int exit_code(Errc code) {
  namespace exit_status = holdfast::exit_status;
  switch (code) {
    case Errc::kUsage:
      return exit_status::kUsage;
    case Errc::kCorrupt:
    case Errc::kVersionNewer:
      return exit_status::kDamaged;
    case Errc::kConflict:
      return exit_status::kOwned;
    default:
      return exit_status::kStorage;
  }
}

int fail(const Error& error) {
  holdfast::log::error("holdfastd ends",
                       {{"code", holdfast::errc_name(error.code)}, {"why", error.what}});
  std::fprintf(stderr, "holdfastd: %s\n", error.what.c_str());
  return exit_code(error.code);
}

/// The exit code of a daemon that has begun to serve. A conflict is that another machine is the
/// primary now, which is no fault.
int end_after_start(const Error& error) {
  const int code = fail(error);
  return error.code == Errc::kConflict ? holdfast::exit_status::kOtherPrimary : code;
}

}  // namespace

namespace {

bool has_argument(int argc, char** argv, std::string_view name) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == name) return true;
  }
  return false;
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int serve(holdfast::daemon::DaemonOptions options, const holdfast::replication::PairPlan& plan) {
  namespace sandbox = holdfast::sandbox;
  if (const auto ready = holdfast::daemon::prepare_state_dir(options.state_dir); !ready) {
    return fail(ready.error());
  }
  sandbox::Policy policy = sandbox::daemon_policy(!options.listen.empty());
  if (plan.is_pair()) policy = sandbox::connecting(std::move(policy));
  sandbox::confine_and_report(policy, options.state_dir + "/run");
  catch_signals();
  std::unique_ptr<holdfast::replication::RecordStore> record;
  if (!plan.record.empty()) record = holdfast::replication::open_record(plan);
  options.probe = std::make_shared<holdfast::ProbeAnswer>();
  auto role = holdfast::replication::find_role(plan, record.get(), holdfast::system_clock(), g_stop,
                                               *options.probe);
  if (!role) return fail(role.error());
  if (!role->is_primary) return 0;
  options.pair = {role->url, role->term, role->in_step, record.get()};
  auto daemon = holdfast::daemon::Daemon::start(std::move(options), holdfast::system_clock());
  if (!daemon) return fail(daemon.error());
  g_daemon = daemon->get();
  if (g_stop.load()) g_daemon->request_stop();
  const Result<void> ended = (*daemon)->run();
  // After a failed sync nothing may run any more, not even destructors that write.
  if (!ended) _exit(end_after_start(ended.error()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  holdfast::open_standard_files();
  if (holdfast::printed_version(argc, argv, "holdfastd")) return 0;
  if (has_argument(argc, argv, "--help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (!has_argument(argc, argv, "--op")) holdfast::arm_crash_points("daemon");
  umask(077);  // prompts and answers are for the owner alone
  holdfast::log::init("holdfastd", isatty(STDERR_FILENO) == 0);
  signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is a full disk, no reason to die
  if (sodium_init() < 0) return fail({Errc::kInternal, "start: libsodium does not start"});
  auto options = read_arguments(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return fail(options.error());
  }
  if (options->op.verb.empty()) {
    return serve(std::move(options->daemon), options->pair);
  }
  holdfast::sandbox::confine(holdfast::sandbox::daemon_policy());
  return operate(*options);
}

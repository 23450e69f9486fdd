#include "shared/sandbox/confine.h"

#include <sys/prctl.h>

#include <ctime>

#include "shared/base/log.h"
#include "shared/sandbox/filter.h"
#include "shared/sandbox/refusals.h"

namespace holdfast::sandbox {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(HOLDFAST_COUNTED)
constexpr bool kRelaxed = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
constexpr bool kRelaxed = true;
#else
constexpr bool kRelaxed = false;
#endif
#else
constexpr bool kRelaxed = false;
#endif

}  // namespace

Confinement confine(const Policy& policy) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  tzset();  // the C library reads the time zone's file at its first use
  Confinement done;
  done.profile = policy.profile;
  done.relaxed = kRelaxed;
  if (kRelaxed) return done;
  if (refusal_of(policy.profile) == Refusal::kCount) {
    count_refusals("holdfast " + std::string(profile_name(policy.profile)));
  }
  const int abi = landlock_abi();
  if (abi > 0 && restrict_with_landlock(policy.files, policy.net, abi)) done.landlock_abi = abi;
  done.calls = filter_calls(policy.profile, policy.network);
  return done;
}

std::string describe(const Confinement& c) {
  if (c.relaxed) return "not confined: a build with sanitizers or counters";
  return std::string(c.calls ? "system calls by list" : "system calls not restricted") +
         (c.landlock_abi > 0 ? ", Landlock " + std::to_string(c.landlock_abi) : ", no Landlock");
}

void log_confinement(const Confinement& c) {
  const bool whole = c.calls && c.landlock_abi > 0;
  log::write(whole ? log::Level::kInfo : log::Level::kWarn,
             whole ? "confined" : "not fully confined",
             {{"profile", profile_name(c.profile)}, {"in_force", describe(c)}});
}

}  // namespace holdfast::sandbox

#pragma once
// A bench program's quick run, as a script would read it.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace holdfast::bench {

/// The report of `program FLAGS --json`; null when there was none. `status`: its exit status.
nlohmann::json run_bench(const std::string& program, const std::string& flags,
                         int* status = nullptr);
/// The value of one figure; fails the test and is -1 if it is not there.
double figure(const nlohmann::json& report, const std::string& name);

}  // namespace holdfast::bench

#pragma once
// Runs a bench program in its quick mode, as a script reads it.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace holdfast::bench {

/// The report of `program FLAGS --json`; null if there is none. `status`: its exit status.
nlohmann::json run_bench(const std::string& program, const std::string& flags,
                         int* status = nullptr);
/// The value of one figure; if it is missing, fails the test and gives -1.
double figure(const nlohmann::json& report, const std::string& name);

}  // namespace holdfast::bench

// Functions that the cases of bench/neighbours have in common.

#include "bench/neighbours_run/cases.h"

namespace holdfast::bench {

Result<std::unique_ptr<Served>> serve(const Options& options, const std::string& name,
                                      const std::string& engine, int step_us) {
  ServedOptions served;
  served.programs = options.programs;
  served.model = options.model;
  served.dir = options.scratch + "/" + name + "-" + engine;
  served.engine = engine;
  if (engine == "fake") {
    served.engine_options = R"({"slots":16,"step_us":)" + std::to_string(step_us) + "}";
  }
  return Served::start(served);
}

void add_waits(Report& report, const std::string& name, const std::vector<double>& ms,
               bool to_p99) {
  const Summary s = summarize(ms);
  report.add(name + ".p50", s.p50, "ms");
  report.add(to_p99 ? name + ".p99" : name + ".p95", to_p99 ? s.p99 : s.p95, "ms");
  report.add(name + ".max", s.max, "ms");
  report.add(name + ".n", static_cast<double>(s.n), "samples");
}

double ratio(double over, double under) {
  return under == 0 ? 0 : over / under;
}

}  // namespace holdfast::bench

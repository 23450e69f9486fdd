#pragma once
// The part that all cases of the probe share: device, report, options, and the time that is left.

#include <functional>
#include <string>

#include "bench/device_probe_run/card.h"
#include "bench/lib/report.h"

namespace holdfast::bench::probe {

/// Options of a run.
struct Options {
  std::string device = "opencl:0";
  std::string only;  // names of cases between commas; empty: all
  std::string ptx;   // a folder for binaries, or empty
  std::string base;  // a file with the text of product kernels to compare with, or empty
  std::string dump;  // a file for inputs and outputs of mma tiles, or empty
  bool quick = false;
  double seconds = 240;
};

/// One run over one device. Not thread-safe.
class Run {
 public:
  Run(Card& card, Report& report, const Options& options, std::string record);

  Card& card;
  Report& report;
  const Options& options;
  double copy_rate = 0;  // 10^9 bytes a second, read and written; 0: not measured
  // How far apart cores of wgmma's operands are (wgmma.cl), as the right product of `facts` showed.
  std::uint32_t wgmma_lead = 128, wgmma_stride = 256;

  std::size_t units() const;  // compute units, at least one
  /// `full`, or `quick` in a quick run.
  std::size_t count(std::size_t full, std::size_t quick) const {
    return options.quick ? quick : full;
  }
  double seconds_left() const;

  /// Runs one item of a case. A failure of the card is a problem named `name`, and the device is
  /// opened anew; so is a false return without one. Skips it when time is over.
  bool attempt(const std::string& name, const std::function<void()>& item);
  /// The same for what a device may lack: its failure is a fact, "no: ...".
  bool find_out(const std::string& name, const std::function<void()>& item);
  /// attempt() where the compiler takes PTX; else notes that the item was skipped, and why.
  bool attempt_ptx(const std::string& name, const std::function<void()>& item);
  /// Adds a fact and prints it.
  void fact(const std::string& name, const std::string& value);
  /// Writes the record as it is.
  void write_record();

 private:
  bool has_time(const std::string& name);
  std::string run_item(const std::function<void()>& item);

  const std::string record_;
  const double start_s_;
};

/// Measures run.copy_rate.
void measure_copy(Run& run);

// The cases, in the order of their importance.
void probe_facts(Run& run);
void probe_launches(Run& run);
void probe_ceilings(Run& run);
void probe_bits(Run& run);
void probe_kernels(Run& run);
void probe_r3(Run& run);
void probe_step(Run& run);

}  // namespace holdfast::bench::probe

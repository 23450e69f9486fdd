#pragma once
// A chart of lines over a few steps as SVG, for docs and eyes.

#include <string>
#include <vector>

namespace holdfast::bench {

struct ChartLine {
  std::string name;
  std::vector<double> values;  // one a step
};

struct Chart {
  std::string title;  // what is drawn, with its unit
  std::vector<std::string> steps;
  std::vector<ChartLine> lines;
};

/// The charts below each other, axes from 0, with names and values as text.
std::string svg_of(const std::vector<Chart>& charts);

}  // namespace holdfast::bench

#pragma once
// Line charts over a few steps as SVG, for the documents.

#include <string>
#include <vector>

namespace holdfast::bench {

struct ChartLine {
  std::string name;
  std::vector<double> values;  // one a step
};

struct Chart {
  std::string title;  // the quantity, with its unit
  std::vector<std::string> steps;
  std::vector<ChartLine> lines;
};

/// The charts one below the other, axes from 0, with names and values as text.
std::string svg_of(const std::vector<Chart>& charts);

}  // namespace holdfast::bench

#pragma once

#include "rehearse/rehearse.hpp"

/// The built-in workloads. Each is small, uses only the public face, and is the example a reader
/// copies from.
namespace rehearse::workloads {

void add_parameter_server(Program& program);
void add_dist_optimizer(Program& program);
void add_model_parallel(Program& program);
void add_call_chain(Program& program);
void add_fan_out(Program& program);
void add_random_graph(Program& program);

/// All of them.
void add_all(Program& program);

}  // namespace rehearse::workloads

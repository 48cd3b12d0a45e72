#pragma once

// The public face of Rehearse. One header per part, too: rpc.hpp, dist_autograd.hpp, worker.hpp,
// program.hpp, optimizer.hpp.

#include "rehearse/dist_autograd.hpp"
#include "rehearse/optimizer.hpp"
#include "rehearse/program.hpp"
#include "rehearse/rpc.hpp"
#include "rehearse/worker.hpp"

namespace rehearse {

using Tensor = at::Tensor;

}  // namespace rehearse

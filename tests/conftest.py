import torch

# Tests run two at a time on two cores; threads of their own would only fight.
torch.set_num_threads(1)

"""Stable-Baselines3: PPO with gSDE, DQN and SAC, evaluated as they train.

Run it by `python examples/trainers/train_sb3.py ppo`.
"""

import sys

import numpy as np
import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize

from shunter.train import check
from shunter.train.adapters.stable_baselines3 import suspension


class Evaluated(BaseCallback):
    def _on_step(self):
        check.evaluating()
        return True


def environments(name, count, seed):
    return VecNormalize(VecFrameStack(make_vec_env(name, count, seed=seed), 2), gamma=0.98)


def rate(left):
    return 1e-3 * left


def made(kind):
    """Return a model, the environment to evaluate it in, and its steps."""
    if kind == "ppo":
        env = environments("Pendulum-v1", 2, 1)
        options = {"n_steps": 16, "batch_size": 8, "n_epochs": 2, "use_sde": True}
        model = PPO("MlpPolicy", env, learning_rate=rate, seed=1, device="cpu", **options)
        return model, environments("Pendulum-v1", 1, 2), 384
    options = {"learning_starts": 30, "batch_size": 8, "train_freq": 4, "buffer_size": 80}
    if kind == "dqn":
        env = make_vec_env("CartPole-v1", 2, seed=1)
        options.update(target_update_interval=16, exploration_fraction=0.8)
        model = DQN("MlpPolicy", env, learning_rate=rate, seed=1, device="cpu", **options)
        return model, make_vec_env("CartPole-v1", 1, seed=2), 200
    env = environments("Pendulum-v1", 1, 1)
    noise = OrnsteinUhlenbeckActionNoise(np.zeros(1), 0.2 * np.ones(1))
    options.update(action_noise=noise, policy_kwargs={"net_arch": [32, 32]})
    model = SAC("MlpPolicy", env, learning_rate=rate, seed=1, device="cpu", **options)
    return model, environments("Pendulum-v1", 1, 2), 100


def main():
    torch.set_num_threads(1)
    model, evaluation, steps = made(sys.argv[1] if len(sys.argv) > 1 else "ppo")
    evaluates = EvalCallback(
        evaluation, callback_after_eval=Evaluated(), n_eval_episodes=1, eval_freq=40, verbose=0
    )
    model.learn(steps, callback=[evaluates, suspension()])
    print(f"{model.num_timesteps} steps, evaluated {evaluates.last_mean_reward:.4f}", flush=True)
    check.saw(model=model.get_parameters(), evaluated=float(evaluates.last_mean_reward))


if __name__ == "__main__":
    main()

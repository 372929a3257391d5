import json

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.runner.models.config import NAMED, resolve_config
from stepscope.runner.models.rope_scaling import Llama3Scaling

LLAMA_32_1B = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "rope_scaling": {
        "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
}  # fmt: skip


def write(tmp_path, **changes):
    path = tmp_path / "config.json"
    raw = {key: value for key, value in (LLAMA_32_1B | changes).items() if value != "absent"}
    path.write_text(json.dumps(raw))
    return path


def shape_of(config):
    return {name: getattr(config, name) for name in config.__slots__ if name != "name"}


def test_the_published_config_of_a_named_shape_gives_that_shape(tmp_path):
    assert shape_of(resolve_config(str(write(tmp_path)))) == shape_of(NAMED["llama-1b"])


def test_a_folder_stands_for_its_config(tmp_path):
    write(tmp_path)
    assert resolve_config(str(tmp_path)).num_hidden_layers == 16


def test_transformers_5_writes_theta_and_scaling_in_one_object(tmp_path):
    rope = LLAMA_32_1B["rope_scaling"] | {"rope_theta": 500000.0}
    path = write(tmp_path, rope_scaling="absent", rope_theta="absent", rope_parameters=rope)
    config = resolve_config(str(path))
    assert (config.rope_theta, config.rope_scaling) == (500000.0, Llama3Scaling(32.0, 1.0, 4.0, 8192))


def test_absent_fields_follow_hugging_face(tmp_path):
    path = write(
        tmp_path, head_dim="absent", num_key_value_heads=None, rope_scaling=None, torch_dtype="absent",
        tie_word_embeddings="absent",
    )  # fmt: skip
    config = resolve_config(str(path))
    assert (config.head_dim, config.num_key_value_heads, config.rope_scaling) == (64, 32, None)
    assert (config.torch_dtype, config.tie_word_embeddings) == (torch.float32, False)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model_type": "mixtral"}, "model_type"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"hidden_size": "absent"}, "hidden_size"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"num_hidden_layers": 1.5}, "num_hidden_layers"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"head_dim": 63}, "head_dim"),
        ({"rms_norm_eps": -1}, "rms_norm_eps"),
        ({"torch_dtype": "float8"}, "dtype"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling"),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, "rope_scaling"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}, "low_freq_factor"),
        ({"rope_scaling": 3}, "rope_scaling"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 16}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 16}, "sliding_window"),
        ({"sliding_window": 0}, "sliding_window"),
    ],
)
def test_what_cannot_be_run_is_refused_with_file_and_field(tmp_path, changes, field):
    path = write(tmp_path, **changes)
    with pytest.raises(UsageError) as error:
        resolve_config(str(path))
    message = str(error.value)
    assert message.startswith(f"{path}: {field}: ")
    assert "\n" not in message


def test_windows_are_those_of_the_layer_types(tmp_path):
    types = ["full_attention", "sliding_attention"] * 8
    assert resolve_config(str(write(tmp_path))).windows is None
    mixed = resolve_config(str(write(tmp_path, model_type="ministral", sliding_window=4096, layer_types=types)))
    assert mixed.windows == (None, 4096) * 8
    every = resolve_config(str(write(tmp_path, model_type="mistral", sliding_window=4096)))
    assert every.windows == (4096,) * 16
    none = resolve_config(str(write(tmp_path, sliding_window=4096, layer_types=["full_attention"] * 16)))
    assert none.windows is None


def test_neither_name_nor_file(tmp_path):
    with pytest.raises(UsageError, match="neither a known shape"):
        resolve_config("llama-9b")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(UsageError, match="not readable as JSON"):
        resolve_config(str(broken))
    broken.write_text("[]")
    with pytest.raises(UsageError, match="holds no JSON object"):
        resolve_config(str(broken))

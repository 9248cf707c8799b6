"""The shape of a model, from its config.json or a preset: what decides its bytes and operations.

Covered: grouped-query and multi-head latent attention (MLA), sparse attention with an indexer (DSA) that neighbouring
layers may share (IndexShare), gated linear attention (KDA), dense and mixture-of-experts layers, prediction layers.
Not covered: vision towers, convolution of linear attention, biases and norms (below 0.1 % of the parameters).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from probes.base import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention."""

    q_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """The selector of sparse attention; `layers_with_own` compute a selection, the others use a neighbour's."""

    heads: int
    head_dim: int
    top_k: int
    layers_with_own: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Gated linear attention with a state of key_dim x value_dim per head, in float32."""

    layers: int
    heads: int
    key_dim: int
    value_dim: int
    ring: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts."""

    routed: int
    per_token: int
    shared: int
    width: int
    dense_layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One model."""

    name: str
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    dense_width: int
    kv_heads: int = 0
    head_dim: int = 0
    latent: Latent | None = None
    indexer: Indexer | None = None
    linear: Linear | None = None
    experts: Experts | None = None
    prediction_layers: int = 0
    tied: bool = False

    @property
    def softmax_layers(self) -> int:
        """Layers with ordinary attention."""
        return self.layers - (self.linear.layers if self.linear else 0)

    def attention_parameters(self) -> float:
        """Parameters of one layer of softmax attention, without the indexer."""
        if self.latent is not None:
            one = self.latent
            query = self.hidden * one.q_rank + one.q_rank * self.heads * (one.nope_dim + one.rope_dim)
            key = self.hidden * (one.kv_rank + one.rope_dim)
            up = one.kv_rank * self.heads * (one.nope_dim + one.value_dim)
            return query + key + up + self.heads * one.value_dim * self.hidden
        return self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)

    def indexer_parameters(self) -> float:
        """Parameters of one indexer."""
        if self.indexer is None:
            return 0.0
        rank = self.latent.q_rank if self.latent else self.hidden
        one = self.indexer
        return rank * one.heads * one.head_dim + self.hidden * (one.head_dim + one.heads)

    def linear_parameters(self) -> float:
        """Parameters of one layer of linear attention: query, key, value, gate, output."""
        if self.linear is None:
            return 0.0
        one = self.linear
        return self.hidden * one.heads * (3 * one.key_dim + 2 * one.value_dim)

    def expert_parameters(self) -> float:
        """Parameters of one routed or shared expert."""
        return 3.0 * self.hidden * self.experts.width if self.experts else 0.0

    def feedforward(self, experts_used: float) -> float:
        """Parameters of all feed-forward layers, with so many routed experts used in each."""
        if self.experts is None:
            return self.layers * 3.0 * self.hidden * self.dense_width
        sparse = self.layers - self.experts.dense_layers
        per_layer = self.expert_parameters() * (experts_used + self.experts.shared) + self.hidden * self.experts.routed
        return sparse * per_layer + self.experts.dense_layers * 3.0 * self.hidden * self.dense_width

    def trunk(self, experts_used: float) -> float:
        """Parameters of the layers and the output head; the embedding is looked up, not multiplied."""
        own = self.indexer.layers_with_own if self.indexer else 0
        attention = self.softmax_layers * self.attention_parameters() + own * self.indexer_parameters()
        linear = (self.linear.layers if self.linear else 0) * self.linear_parameters()
        return attention + linear + self.feedforward(experts_used) + self.hidden * self.vocabulary

    def prediction_parameters(self, experts_used: float) -> float:
        """Parameters of the layers for multi-token prediction."""
        feed = self.expert_parameters() * (experts_used + (self.experts.shared if self.experts else 0))
        if self.experts is None:
            feed = 3.0 * self.hidden * self.dense_width
        one = self.attention_parameters() + self.indexer_parameters() + feed + 2.0 * self.hidden * self.hidden
        return self.prediction_layers * one

    @property
    def parameters(self) -> float:
        """All of them, multi-token prediction included."""
        every = float(self.experts.routed) if self.experts else 0.0
        embedding = 0.0 if self.tied else self.hidden * self.vocabulary
        # Every layer of a checkpoint carries an indexer, also those that use a neighbour's.
        stored = (self.softmax_layers - self.indexer.layers_with_own) if self.indexer else 0
        return self.trunk(every) + embedding + self.prediction_parameters(every) + stored * self.indexer_parameters()

    @property
    def active_parameters(self) -> float:
        """Parameters that one token is multiplied with, without multi-token prediction."""
        return self.trunk(float(self.experts.per_token) if self.experts else 0.0)


GLM_5 = Shape(
    name="glm-5", layers=78, hidden=6144, heads=64, vocabulary=154_880, dense_width=12_288,
    latent=Latent(q_rank=2048, kv_rank=512, nope_dim=192, rope_dim=64, value_dim=256),
    indexer=Indexer(heads=32, head_dim=128, top_k=2048, layers_with_own=78),
    experts=Experts(routed=256, per_token=8, shared=1, width=2048, dense_layers=3),
)  # fmt: skip
GLM_5_2 = Shape(
    name="glm-5.2", layers=78, hidden=6144, heads=64, vocabulary=154_880, dense_width=12_288, prediction_layers=1,
    latent=GLM_5.latent, experts=GLM_5.experts,
    indexer=Indexer(heads=32, head_dim=128, top_k=2048, layers_with_own=21),
)  # fmt: skip
PRESETS = {shape.name: shape for shape in (GLM_5, GLM_5_2)}


def shape_of(config: Mapping[str, Json], name: str = "") -> Shape:
    """The shape in a config.json of Hugging Face. ValueError names what is missing."""
    config = config.get("text_config") or config
    try:
        return _shape(config, name or str(config.get("model_type", "model")))
    except KeyError as error:
        raise ValueError(f"the configuration has no {error.args[0]}") from error


def _shape(config: Mapping[str, Json], name: str) -> Shape:
    heads = int(config["num_attention_heads"])
    hidden, layers = int(config["hidden_size"]), int(config["num_hidden_layers"])
    return Shape(
        name=name, layers=layers, hidden=hidden, heads=heads, vocabulary=int(config["vocab_size"]),
        dense_width=int(config["intermediate_size"]), kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads), latent=_latent(config),
        indexer=_indexer(config, layers),
        linear=_linear(config), experts=_experts(config), tied=bool(config.get("tie_word_embeddings", False)),
        prediction_layers=int(config.get("num_nextn_predict_layers") or 0),
    )  # fmt: skip


def _latent(config: Mapping[str, Json]) -> Latent | None:
    if not config.get("kv_lora_rank"):
        return None
    return Latent(
        q_rank=int(config.get("q_lora_rank") or config["hidden_size"]), kv_rank=int(config["kv_lora_rank"]),
        nope_dim=int(config["qk_nope_head_dim"]), rope_dim=int(config.get("qk_rope_head_dim") or 0),
        value_dim=int(config["v_head_dim"]),
    )  # fmt: skip


def _indexer(config: Mapping[str, Json], layers: int) -> Indexer | None:
    if not config.get("index_topk"):
        return None
    kinds = config.get("indexer_types")
    own = sum(kind == "full" for kind in kinds) if kinds else layers
    return Indexer(
        heads=int(config["index_n_heads"]), head_dim=int(config["index_head_dim"]), top_k=int(config["index_topk"]),
        layers_with_own=own,
    )  # fmt: skip


def _linear(config: Mapping[str, Json]) -> Linear | None:
    found = config.get("linear_attn_config")
    if not found:
        return None
    listed = found.get("kda_layers")
    dim = int(found["head_dim"])
    return Linear(
        layers=len(listed) if listed else int(found["num_layers"]), heads=int(found["num_heads"]), key_dim=dim,
        value_dim=int(found.get("value_head_dim", dim)),
    )  # fmt: skip


def _experts(config: Mapping[str, Json]) -> Experts | None:
    routed = config.get("n_routed_experts") or config.get("num_local_experts") or config.get("num_experts")
    if not routed:
        return None
    return Experts(
        routed=int(routed), per_token=int(config["num_experts_per_tok"]),
        shared=int(config.get("n_shared_experts") or config.get("num_shared_experts") or 0),
        width=int(config.get("moe_intermediate_size") or config["intermediate_size"]),
        dense_layers=int(config.get("first_k_dense_replace") or 0),
    )  # fmt: skip

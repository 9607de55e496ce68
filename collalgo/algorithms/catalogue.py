"""The catalogue: one row for each algorithm of each collective."""

from collalgo.algorithms import (
    binary,
    binary_blocks,
    bine,
    bruck,
    butterfly,
    chain,
    circulant,
    circulant_blocks,
    direct,
    dissemination,
    double_tree,
    forest,
    grid,
    grid_ring,
    halving_doubling,
    hierarchical,
    hierarchical_alltoall,
    hierarchical_scatter,
    k_nomial,
    lanes,
    late_rank,
    linear,
    multi_leader,
    neighbor_exchange,
    pairwise,
    recursive_multiplying,
    ring,
    scan,
    sparbit,
    striped_chains,
    swing,
    tori,
    torus_trees,
    trivance,
    van_de_geijn,
)
from collalgo.algorithms.row import Algorithm
from collalgo.algorithms.table import (
    ALGORITHMS,
    add,
    algorithm,
    candidates,
    find,
    named,
)

__all__ = ["ALGORITHMS", "Algorithm", "add", "algorithm", "candidates", "find", "named"]


add("allreduce", "one_shot", direct.one_shot, keeps_rank_order=True)
add("allreduce", "two_shot", direct.two_shot, keeps_rank_order=True)
add("allreduce", "ring", ring.allreduce)
add("allreduce", "segmented_ring", ring.allreduce, segments=4)
add("allreduce", "bidirectional_ring", ring.bidirectional, lane_count=lanes.two)
add("allreduce", "multi_ring", ring.disjoint, lane_count=lanes.rings)
add("allreduce", "halving_doubling", halving_doubling.allreduce)
add("allreduce", "k_ary_halving_doubling", halving_doubling.allreduce, radix=4)
add(
    "allreduce",
    "recursive_doubling",
    recursive_multiplying.allreduce,
    unfit=recursive_multiplying.unfit,
)
add(
    "allreduce",
    "recursive_multiplying",
    recursive_multiplying.allreduce,
    unfit=recursive_multiplying.unfit,
    radix=4,
)
add("allreduce", "linear", linear.allreduce, keeps_rank_order=True)
add("allreduce", "reduce_broadcast", k_nomial.allreduce)
add("allreduce", "binary_blocks", binary_blocks.allreduce)
add("allreduce", "circulant", circulant.allreduce)
add("allreduce", "circulant_pipeline", circulant_blocks.allreduce)
add("allreduce", "swing", swing.allreduce)
add("allreduce", "bine", bine.allreduce)
add("allreduce", "trivance", trivance.allreduce, lane_count=lanes.two)
add("allreduce", "pipeline", chain.allreduce, segments=8)
add("allreduce", "double_tree", double_tree.allreduce, lane_count=lanes.two, segments=4)
add("allreduce", "butterfly", butterfly.allreduce)
add("allreduce", "late_rank", late_rank.allreduce, lane_count=lanes.two, by_name=True)
add("allreduce", "late_broadcast", late_rank.broadcast, by_name=True)
add("allreduce", "ring_2d", grid_ring.rings, hierarchical=True)
add("allreduce", "ring_3d", grid_ring.rings, hierarchical=True, axes=3)
add("allreduce", "two_level", hierarchical.two_level_allreduce, hierarchical=True)
add("allreduce", "torus_2d", grid.torus, hierarchical=True)
add("allreduce", "torus_3d", grid.torus, hierarchical=True, axes=3)
add(
    "allreduce",
    "torus_2d_all_ways",
    tori.all_ways,
    lane_count=lanes.axes_both_ways,
    hierarchical=True,
)
add(
    "allreduce",
    "torus_3d_all_ways",
    tori.all_ways,
    lane_count=lanes.axes_both_ways,
    hierarchical=True,
    axes=3,
)
add("allreduce", "mesh_2d", grid.mesh, hierarchical=True)
add("allreduce", "mesh_3d", grid.mesh, hierarchical=True, axes=3)
add(
    "allreduce",
    "mesh_2d_both_axes",
    tori.all_axes,
    lane_count=lanes.axes,
    hierarchical=True,
)
add("allreduce", "blueconnect", grid.blueconnect, hierarchical=True)
add("allreduce", "bcube", grid.bcube, hierarchical=True)
add("allreduce", "hierarchical", hierarchical.allreduce, hierarchical=True)
add(
    "allreduce",
    "forest",
    forest.allreduce,
    lane_count=lanes.forest,
    unfit=forest.unfit,
    hierarchical=True,
)

add("reduce", "linear", linear.reduce, keeps_rank_order=True)
add("reduce", "chain", chain.reduce, chains=4)
add("reduce", "pipeline", chain.reduce, segments=8)
add("reduce", "binary", binary.reduce)
add("reduce", "in_order_binary", binary.in_order_reduce)
add("reduce", "binomial", k_nomial.reduce)
add("reduce", "k_nomial", k_nomial.reduce, radix=4)
add("reduce", "rabenseifner", halving_doubling.reduce)
add("reduce", "circulant", circulant_blocks.reduce)
add("reduce", "double_tree", double_tree.reduce, lane_count=lanes.two, segments=4)
add("reduce", "bine", bine.reduce)
add(
    "reduce",
    "torus_2d_trees",
    torus_trees.reduce,
    lane_count=lanes.torus_trees,
    segments=4,
    hierarchical=True,
)
add(
    "reduce",
    "striped_chains",
    striped_chains.reduce,
    lane_count=lanes.two,
    segments=4,
    hierarchical=True,
)

add("broadcast", "linear", linear.broadcast)
add("broadcast", "chain", chain.broadcast, chains=4)
add("broadcast", "pipeline", chain.broadcast, segments=8)
add("broadcast", "binary", binary.broadcast)
add("broadcast", "split_binary", binary.split_broadcast)
add("broadcast", "binomial", k_nomial.broadcast)
add("broadcast", "k_nomial", k_nomial.broadcast, radix=4)
add("broadcast", "van_de_geijn", van_de_geijn.broadcast)
add("broadcast", "van_de_geijn_doubling", van_de_geijn.broadcast_doubling)
add("broadcast", "circulant", circulant_blocks.broadcast)
add("broadcast", "double_tree", double_tree.broadcast, lane_count=lanes.two, segments=4)
add("broadcast", "bine", bine.broadcast)
add("broadcast", "two_level", hierarchical.broadcast, hierarchical=True)
add(
    "broadcast",
    "torus_2d_trees",
    torus_trees.broadcast,
    lane_count=lanes.torus_trees,
    segments=4,
    hierarchical=True,
)
add(
    "broadcast",
    "striped_chains",
    striped_chains.broadcast,
    lane_count=lanes.two,
    segments=4,
    hierarchical=True,
)

add("allgather", "direct", direct.allgather)
add("allgather", "ring", ring.allgather)
add(
    "allgather",
    "neighbor_exchange",
    neighbor_exchange.allgather,
    obstacle=neighbor_exchange.obstacle,
)
add("allgather", "recursive_doubling", halving_doubling.allgather)
add("allgather", "recursive_multiplying", halving_doubling.allgather, radix=4)
add("allgather", "bruck", bruck.allgather)
add("allgather", "k_bruck", bruck.allgather, radix=4)
add("allgather", "sparbit", sparbit.allgather)
add("allgather", "pat", sparbit.allgather, aggregation=2)
add("allgather", "circulant", circulant.allgather)
add("allgather", "swing", swing.allgather)
add("allgather", "bine", bine.allgather)
add("allgather", "trivance", trivance.allgather, lane_count=lanes.two)
add("allgather", "torus_2d", grid.allgather, hierarchical=True)
add("allgather", "torus_3d", grid.allgather, hierarchical=True, axes=3)
add(
    "allgather",
    "torus_2d_all_ways",
    tori.all_ways_allgather,
    lane_count=lanes.axes_both_ways,
    hierarchical=True,
)
add(
    "allgather",
    "torus_3d_all_ways",
    tori.all_ways_allgather,
    lane_count=lanes.axes_both_ways,
    hierarchical=True,
    axes=3,
)
add("allgather", "bcube", grid.bcube_allgather, hierarchical=True)
add("allgather", "hierarchical", hierarchical.allgather, hierarchical=True)
add("allgather", "multi_leader", multi_leader.allgather, hierarchical=True)

add("reduce_scatter", "direct", direct.reduce_scatter, keeps_rank_order=True)
add("reduce_scatter", "pairwise", pairwise.reduce_scatter)
add("reduce_scatter", "ring", ring.reduce_scatter)
add("reduce_scatter", "recursive_halving", halving_doubling.reduce_scatter)
add("reduce_scatter", "k_nomial", halving_doubling.reduce_scatter, radix=4)
add("reduce_scatter", "reduce_then_scatter", k_nomial.reduce_scatter)
add("reduce_scatter", "circulant", circulant.reduce_scatter)
add("reduce_scatter", "butterfly", butterfly.reduce_scatter)
add("reduce_scatter", "pat", sparbit.reduce_scatter, aggregation=2)
add("reduce_scatter", "swing", swing.reduce_scatter)
add("reduce_scatter", "bine", bine.reduce_scatter)
add("reduce_scatter", "trivance", trivance.reduce_scatter, lane_count=lanes.two)
add("reduce_scatter", "torus_2d", grid.reduce_scatter, hierarchical=True)
add("reduce_scatter", "torus_3d", grid.reduce_scatter, hierarchical=True, axes=3)
add(
    "reduce_scatter",
    "torus_2d_all_ways",
    tori.all_ways_reduce_scatter,
    lane_count=lanes.axes_both_ways,
    hierarchical=True,
)
add(
    "reduce_scatter",
    "torus_3d_all_ways",
    tori.all_ways_reduce_scatter,
    lane_count=lanes.axes_both_ways,
    hierarchical=True,
    axes=3,
)
add("reduce_scatter", "bcube", grid.bcube_reduce_scatter, hierarchical=True)
add("reduce_scatter", "hierarchical", hierarchical.reduce_scatter, hierarchical=True)

add("alltoall", "linear", pairwise.spread_out)
add("alltoall", "pairwise", pairwise.alltoall)
add("alltoall", "spread_out", pairwise.spread_out, batch=4)
add("alltoall", "bruck", bruck.alltoall)
add("alltoall", "k_bruck", bruck.alltoall, radix=4)
add("alltoall", "circulant", circulant.alltoall)
add("alltoall", "hybrid", pairwise.hybrid, parameters_for_counts=pairwise.large_blocks)
add("alltoall", "two_step", hierarchical_alltoall.two_step, hierarchical=True)
add("alltoall", "three_step", hierarchical_alltoall.three_step, hierarchical=True)

add("gather", "linear", linear.gather)
add("gather", "binomial", k_nomial.gather)
add("gather", "k_nomial", k_nomial.gather, radix=4)
add(
    "gather", "hierarchical", hierarchical_scatter.gather, segments=4, hierarchical=True
)

add("scatter", "linear", linear.scatter)
add("scatter", "binomial", k_nomial.scatter)
add("scatter", "k_nomial", k_nomial.scatter, radix=4)
add(
    "scatter",
    "hierarchical",
    hierarchical_scatter.scatter,
    segments=4,
    hierarchical=True,
)

add("scan", "linear", linear.scan)
add("scan", "recursive_doubling", scan.scan)
add("scan", "pipelined", linear.scan, segments=8)

add("exscan", "linear", scan.linear_exscan)
add("exscan", "recursive_doubling", scan.exscan)
add("exscan", "pipelined", scan.linear_exscan, segments=8)
add("exscan", "123_doubling", scan.one_two_three)
add("exscan", "chain", scan.chain_exscan, segments=8)

add("barrier", "linear", linear.barrier)
add("barrier", "double_ring", ring.barrier)
add("barrier", "recursive_doubling", recursive_multiplying.barrier)
add("barrier", "dissemination", dissemination.barrier)
add("barrier", "k_dissemination", dissemination.barrier, radix=4)
add("barrier", "tree", k_nomial.barrier)

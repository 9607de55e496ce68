"""A small topology file of every format, with its numbers of devices and links."""

import json

NCCL = """<system version="1">
 <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
  <pci busid="0000:10:00.0" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">
   <pci busid="0000:11:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16">
    <gpu dev="0" sm="70" rank="0" gdr="1">
     <nvlink target="0000:12:00.0" count="2" tclass="0x030200"/>
    </gpu>
   </pci>
   <pci busid="0000:12:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16">
    <gpu dev="1" sm="70" rank="1" gdr="1">
     <nvlink target="0000:11:00.0" count="2" tclass="0x030200"/>
    </gpu>
   </pci>
   <pci busid="0000:13:00.0" class="0x020700" link_speed="" link_width="0">
    <nic><net name="mlx5_0" dev="0" speed="100000" port="1" guid="0x1"/></nic>
   </pci>
  </pci>
 </cpu>
 <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"/>
</system>"""

SMI = """\x1b[4m\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\x1b[0m
GPU0\t X \tNV2\tPIX\t0-7
GPU1\tNV2\t X \tPXB\t0-7
mlx5_0\tPIX\tPXB\t X \t
"""

ROCM = """======================= ROCm System Management Interface =======================
=========================== Weight between two GPUs ============================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
============================ Hops between two GPUs =============================
       GPU0         GPU1
GPU0   0            1
GPU1   1            0
========================== Link Type between two GPUs ==========================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
================================== Numa Nodes ==================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 1
GPU[1]\t\t: (Topology) Numa Affinity: 1
"""

AMD = """LINK TYPE TABLE:
             0000:0c:00.0 0000:22:00.0
0000:0c:00.0 SELF         XGMI
0000:22:00.0 XGMI         SELF

NUMA BW TABLE:
             0000:0c:00.0 0000:22:00.0
0000:0c:00.0 N/A          50000-50000
0000:22:00.0 50000-50000  N/A
"""

LSPCI = """00:00.0 Host bridge: Intel Corporation Device
00:01.0/01:00.0/02:00.0/03:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)
00:01.0/01:00.0/02:01.0/04:00.0 Infiniband controller: Mellanox MT28908
00:02.0/05:00.0 VGA compatible controller: ASPEED Technology
80:01.0/81:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)
"""

HWLOC = """<topology version="2.0"><object type="Machine" os_index="0" gp_index="1">
 <object type="Package" os_index="0" gp_index="2">
  <object type="NUMANode" os_index="0" gp_index="3" cpuset="0x000000ff"/>
  <object type="Bridge" gp_index="4" bridge_type="0-1">
   <object type="PCIDev" gp_index="5" pci_busid="0000:01:00.0"
     pci_type="0302 [10de:1db1] [10de:1212] a1" pci_link_speed="15.753846">
     <object type="OSDev" gp_index="6" name="cuda0" osdev_type="5"/></object>
   <object type="PCIDev" gp_index="7" pci_busid="0000:02:00.0"
     pci_type="0302 [10de:1db1] [10de:1212] a1" pci_link_speed="15.753846">
     <object type="OSDev" gp_index="8" name="cuda1" osdev_type="5"/></object>
   <object type="PCIDev" gp_index="9" pci_busid="0000:03:00.0"
     pci_type="0300 [102b:0522] [0000:0000] 05" pci_link_speed="0.25"/>
  </object></object></object>
 <distances2hetero nbobjs="2" kind="9" name="NVLinkBandwidth">
  <indexes length="15">OSDev:6 OSDev:8 </indexes>
  <u64values length="30">1000000 50000 50000 1000000 </u64values>
 </distances2hetero></topology>"""

INFINIBAND = """switchguid=0x1(1)
Switch 36 "S-0001"   # "leaf one" enhanced port 0 lid 1 lmc 0
[1] "H-0001"[1](2)   # "node1 mlx5_0" lid 2 4xHDR
[2] "H-0002"[1](3)   # "node2 mlx5_0" lid 3 4xHDR
[41] "H-0009"[1](9)  # "Mellanox Technologies Aggregation Node" lid 9 4xHDR

Ca 1 "H-0001"        # "node1 mlx5_0"
[1](2) "S-0001"[1]   # lid 2 lmc 0 "leaf one" lid 1 4xHDR

Ca 1 "H-0002"        # "node2 mlx5_0"
[1](3) "S-0001"[2]   # lid 3 lmc 0 "leaf one" lid 1 4xHDR

Ca 1 "H-0009"        # "Mellanox Technologies Aggregation Node"
[1](9) "S-0001"[41]  # lid 9 lmc 0 "leaf one" lid 1 4xHDR
"""

YAML_NODES = """apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: default}
spec: {levels: [{nodeLabel: block}, {nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {block: b1, rack: r1}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {block: b1, rack: r2}}
"""

TORUS_YAML = """- topology: t
  torus3d:
    toruses:
      - name: pod
        dims: {x: 3, y: 2, z: 1}
        nodes: n[1-6]
"""

#: For every format a text, its number of devices and its number of links.
SMALL = {
    "nccl_xml": (NCCL, 6, 6),
    "nccl_graph": (
        '<graphs version="1"><graph id="0" pattern="4" speedintra="20" typeintra="NVL">'
        '<channel><gpu dev="0"/><gpu dev="1"/><gpu dev="a"/></channel></graph></graphs>',
        3,
        3,
    ),
    "hwloc": (HWLOC, 4, 4),
    "simgrid": (
        '<platform version="4.1"><zone id="z"><cluster id="c" prefix="n" suffix="" '
        'radical="0-3" bw="1Gbps" lat="50us"/></zone></platform>',
        5,
        4,
    ),
    "graphml": (
        '<graphml><key id="k" for="node" attr.name="kind" attr.type="string"/>'
        '<key id="b" for="edge" attr.name="bandwidth" attr.type="double"/><graph '
        'edgedefault="undirected"><node id="a"><data key="k">gpu</data></node>'
        '<node id="s"><data key="k">pci</data></node><edge source="a" target="s">'
        '<data key="b">12.5</data></edge></graph></graphml>',
        2,
        1,
    ),
    "own": (
        "collalgo: topology/1\nparameters: {nv: 25}\ndevices: [{id: 'gpu[0-2]', kind: gpu}]"
        "\nlinks: [{ends: ['gpu[0-1]', 'gpu[1-2]'], kind: nvlink, bandwidth: 2*nv}]",
        3,
        2,
    ),
    "slurm_yaml": (TORUS_YAML, 6, 9),
    "kueue": (YAML_NODES, 5, 4),
    "topograph": (
        "switches: {core: {switches: [leaf]}}\n"
        "blocks: [{switch: leaf, nodes: ['n[1-3]'], annotations: {x/domain: d}}]",
        5,
        4,
    ),
    "astra_sim": (
        "topology: [ Switch, Ring ]\nnpus_count: [ 4, 3 ]\nbandwidth: [ 400, 50 ]\n"
        "latency: [ 500, 1000 ]",
        15,
        24,
    ),
    "taccl": (
        json.dumps(
            {
                "name": "x",
                "gpus_per_node": 4,
                "nics_per_node": 2,
                "alpha": 0.3,
                "node_invbws_list": [8],
                "remote_invbw": 80,
            }
        ),
        7,
        8,
    ),
    "netq": (
        json.dumps(
            [
                {
                    "links": [
                        {"src": "l", "target": "h", "compounded_links": [{}, {}]}
                    ],
                    "nodes": [{"id": "l", "device_type": "switch"}, {"id": "h"}],
                }
            ]
        ),
        2,
        1,
    ),
    "jgf": (
        json.dumps(
            {
                "graph": {
                    "nodes": {
                        "h": {"metadata": {"type": "host"}},
                        "s": {"metadata": {"type": "switch"}},
                    },
                    "edges": [{"source": "h", "target": "s"}],
                }
            }
        ),
        2,
        1,
    ),
    "amd_smi": (AMD, 2, 1),
    "rocm_smi": (ROCM, 4, 4),
    "nvidia_smi": (SMI, 7, 7),
    "infiniband": (INFINIBAND, 3, 2),
    "torus_2qos": ("# 2D\ntorus 3 3 1\nxp_link 0x1 0x2\n", 9, 18),
    "slurm_conf": (
        "SwitchName=top Switches=s[1-2]\nSwitchName=s1 Nodes=a[1-2]\n"
        "SwitchName=s2 Nodes=b[1-3] # five\n",
        8,
        7,
    ),
    "htsim": (
        "Nodes 8\nTiers 2\nPodsize 8\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\n"
        "Radix_Up 2\nTier 1\nDownlink_speed_Gbps 200\nRadix_Down 2\n",
        12,
        12,
    ),
    "lspci": (LSPCI, 7, 6),
    "link_list": (
        "4 1 3\n3\n3 0 100Gbps 0.001ms 0\n3 1 100Gbps 1us 0\n3 2 100Gbps 1us 0\n",
        4,
        3,
    ),
}

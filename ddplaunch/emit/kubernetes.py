"""--emit kubernetes: an Indexed Job, and the Service that gives its pods names. [pure]"""

import shlex

from ddplaunch.config.settings import DEFAULT_MASTER_PORT
from ddplaunch.emit.job import JobFile
from ddplaunch.errors import LaunchError, Problem

DEFAULT_GRACE_SECONDS = 30.0
LEAVE_SECONDS = 10  # beyond the grace: SIGKILL, and the last words


def render_kubernetes(job: JobFile) -> str:
    port = job.master_port or DEFAULT_MASTER_PORT
    master = f"{job.name}-0.{job.name}"
    line = job.command(gpus=None, nnodes=job.nnodes, master_addr=master, master_port=port)
    # Kubernetes would put variables in for $(NAME), and takes $$ for a plain $.
    command = "\n".join(f"            - {_quote(word.replace('$', '$$'))}" for word in shlex.split(line))
    grace = DEFAULT_GRACE_SECONDS if job.grace_seconds is None else job.grace_seconds
    limit = f"nvidia.com/gpu: {job.gpus or 1}"
    gpus = f"              {limit}" if job.is_gpu_sure else f"              # {limit}"
    return f"""\
# Made by: {job.made_by}
# Submit it with: kubectl apply -f {job.name}.yaml
---
# Names for the pods: {job.name}-0.{job.name} is where the nodes meet, also before it is ready.
apiVersion: v1
kind: Service
metadata:
  name: {job.name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    job-name: {job.name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {job.name}
spec:
  # A pod per node; its index is its node rank.
  completionMode: Indexed
  completions: {job.nnodes}
  parallelism: {job.nnodes}
  # The nodes share one fate: a pod that failed is not started again on its own.
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      subdomain: {job.name}
      # --grace for the workers' checkpoints, and a little more.
      terminationGracePeriodSeconds: {round(grace) + LEAVE_SECONDS}
      containers:
        - name: ddplaunch
          # Change: an image with your script, torch and ddplaunch in it.
          image: {_quote(job.name + ":latest")}
          # workingDir: /workspace
          command:
{command}
          ports:
            - containerPort: {port}
            - containerPort: {job.control_port or port + 1}
          # A secret of your own keeps others in the cluster out of the run:
          # env:
          #   - name: DDPLAUNCH_TOKEN
          #     valueFrom: {{secretKeyRef: {{name: {job.name}, key: token}}}}
          resources:
            # Cores for all workers of a node together, at least; DataLoader workers want some, too.
            requests:
              cpu: {job.cpus}
            limits:
{gpus}
          volumeMounts:
            - {{name: shm, mountPath: /dev/shm}}
      volumes:
        # DataLoader workers and NCCL want more shared memory than a container has.
        - {{name: shm, emptyDir: {{medium: Memory}}}}
"""


def _quote(text: str) -> str:
    """A double-quoted scalar of YAML's."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        what = f"{text!r} is not text, and a manifest cannot hold it"
        raise LaunchError(Problem(what, "some of its bytes are no UTF-8"))
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'

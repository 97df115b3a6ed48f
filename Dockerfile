# The cloud's half: `specdec serve` with one model. On a CPU, or with `--build-arg DEVICE=gpu` on an NVIDIA GPU.
#
#   docker build -t specdec .
#   docker run --rm -p 8765:8765 -e SPECDEC_TOKEN="$(openssl rand -hex 32)" specdec --config mini
#
#   docker build -t specdec:gpu --build-arg DEVICE=gpu .
#   docker run --rm --gpus all -p 8765:8765 --env-file token.env -v models:/models -v "$PWD/tls:/tls:ro" \
#     -e HEALTH_URL=https://127.0.0.1:8765/healthz \
#     specdec:gpu --config qwen2.5-omni --set serve.tls_cert=/tls/cert.pem --set serve.tls_key=/tls/key.pem
#
# SPECDEC_TOKEN holds the clients' token, 16 characters or more. Without serve.tls_cert the connection is readable: put a
# proxy with TLS in front. Models are downloaded to /models, so give it a volume.

FROM python:3.12-slim

RUN apt-get update && apt-get install -y --no-install-recommends libjemalloc2 && rm -rf /var/lib/apt/lists/*

# PyPI's PyTorch brings CUDA along (several GB); the CPU build has an index of its own.
ARG DEVICE=cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY constraints.txt ./
RUN case "$DEVICE" in \
      cpu) more="--extra-index-url https://download.pytorch.org/whl/cpu"; torch="torch==$(sed -n 's/^torch==//p' constraints.txt)+cpu" ;; \
      gpu) more=""; torch="torch" ;; \
      *) echo "DEVICE is cpu or gpu, not $DEVICE" >&2; exit 1 ;; \
    esac; \
    pip install $more -c constraints.txt "$torch"

COPY pyproject.toml README.md LICENSE ./
COPY configs configs
COPY specdec_cli specdec_cli
RUN pip install -c constraints.txt '.[serve]' && rm -rf /build

RUN useradd --create-home --uid 1000 specdec && mkdir /models && chown specdec /models
USER specdec
WORKDIR /home/specdec
# Under a mixed load glibc's free memory comes in pieces that nothing fits; jemalloc's is used again, or given back.
ENV HF_HOME=/models HEALTH_URL=http://127.0.0.1:8765/healthz \
    LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=background_thread:true
VOLUME /models
EXPOSE 8765

# The certificate is the server's own and need not name 127.0.0.1.
HEALTHCHECK --start-period=10m --interval=30s --timeout=5s CMD ["python", "-c", \
  "import os, ssl, urllib.request as u; u.urlopen(os.environ['HEALTH_URL'], timeout=4, context=ssl._create_unverified_context())"]
ENTRYPOINT ["specdec", "serve", "--host", "0.0.0.0", "--token-env", "SPECDEC_TOKEN"]
CMD ["--config", "mini"]

"""Captioning what a microphone records: the device, and the utterances in what it delivers. Nothing here imports torch.

microphone  blocks of mono samples as they are recorded, through PortAudio
utterances  cuts them at pauses, and tells when each utterance ended
"""
